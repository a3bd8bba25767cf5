#data bench=lua_script rows=script columns=arm cells=ratio_malloc where=lua:5.4
#order 5
#title Lua scripts under a hard limit
#text Whole lives of Lua 5.4 - open, libraries, compile, run, close - in time
#text over the same on the C library's malloc (`stock`, the line at 1). Left of
#text it is faster. `managed_limit` is ours with a hard limit that counts every
#text byte; the others have no limit. `geomean` is what counts: single scripts
#text move by a third for every allocator.
load here . "/plot/style.inc"
set title "Time of a script over malloc (less is better)"
set xlabel "time over malloc"
set format x "%.1f"
set xtics 0.1
unset grid
set grid xtics ytics lc rgb "#dddddd" lw 1
set lmargin 18
set yrange [:] reverse
set offsets 0, 0, 0.7, 0.7
set arrow from 1, graph 0 to 1, graph 1 nohead lc rgb "#555555" lw 1.5
plot for [i=2:words(names0)] data index 0 using i:0:ytic(1) with points \
	lc rgb shade(word(names0, i)) lw 2 ps 1.4 \
	pt (is_ours(word(names0, i)) ? 7 : point(word(names0, i))) \
	title label(names0, i)
