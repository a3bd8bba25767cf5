#data bench=region_drain_window rows=after columns=strategy cells=rss_kib
#data bench=region_collapse rows=phase columns=strategy cells=held_kib where=regions:1,course:collapse
#order 4
#title Memory held over requests
#text Left: resident memory after a request of 1 GiB (128 MiB with --quick), while
#text small ones follow.
#text The arena keeps 64 MiB by default, so that the next large request maps
#text nothing (slab_arena_set_retain() changes that); what stays above is the slab
#text in use, one whole slab of the cache and garbage below its cap. Right: KiB that a region holds after
#text each phase of the collapse, on a log scale where 1 stands for none:
#text free_all, malloc and the like hold nothing between requests (what malloc
#text caches for itself is not counted here).
load here . "/plot/style.inc"
set multiplot layout 1,2 title "Memory held" font ",13"
set title "resident after one large request" font ",11"
set logscale x
set xlabel "small requests since"
set format x "%.0s%c"
set ylabel "MiB above the start"
set yrange [0:*]
set key inside top right
plot for [i=2:words(names0)] data index 0 using 1:(column(i)/1024) \
	with linespoints lw width(word(names0, i)) \
	lc rgb shade(word(names0, i)) pt point(word(names0, i)) ps 0.6 \
	title label(names0, i)
set title "one region, after each phase of the collapse" font ",11"
unset logscale x
set logscale y
set format x "%g"
set xlabel "phase"
set ylabel "KiB (log scale; 1 stands for none)"
set yrange [0.8:*]
set xrange [0.7:7.3]
set key outside below center vertical maxrows 3
plot for [i=2:words(names1)] data index 1 \
	using 1:(column(i) > 0 ? column(i) : 1) with linespoints \
	lw width(word(names1, i)) lc rgb shade(word(names1, i)) \
	pt point(word(names1, i)) ps 0.6 title label(names1, i)
unset multiplot
