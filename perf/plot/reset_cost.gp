#data bench=region_reset rows=slabs columns=strategy cells=ns_op where=size:64KiB,state:steady
#order 1
#title Reset cost over the number of slabs
#text What one reset costs when a request has taken N slabs of 64 KiB. A flat
#text line is constant time. The time holds the reading of the clock, which the
#text line `floor` shows by itself; beyond 10,000 slabs the caches are cold and
#text the lines that were flat rise by a few cache misses. Note that keep_head
#text is as flat as garbage and wrong: it forgets one slab only (see used()
#text and KiB held in the tables). Lines that end at 10,000 go on with --full.
load here . "/plot/style.inc"
set title "Reset after N slabs of 64 KiB"
set xlabel "slabs that the request took"
set ylabel "one reset"
set logscale xy
set format x "%.0s%c"
set ytics ("10 ns" 10, "100 ns" 100, "1 µs" 1e3, "10 µs" 1e4, \
	"100 µs" 1e5, "1 ms" 1e6, "10 ms" 1e7, "100 ms" 1e8, "1 s" 1e9)
set yrange [10:*]
plot for [i=2:words(names0)] data index 0 using 1:i with linespoints \
	lw width(word(names0, i)) lc rgb shade(word(names0, i)) \
	pt point(word(names0, i)) ps 0.8 title label(names0, i)
