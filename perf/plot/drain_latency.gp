#data bench=region_drain_window rows=after columns=strategy cells=p50_ns
#data bench=region_drain_window rows=after columns=strategy cells=p99_ns
#data bench=region_drain_window rows=after columns=strategy cells=max_ns
#data bench=region_drain rows=strategy cells=drop_ns
#order 3
#title Latency of small requests after a large one
#text A request took 1 GiB (128 MiB with --quick); small ones follow. Each point covers the requests
#text since the point before it. The dots at the left are what the large request
#text paid when it ended: free_all and malloc pay for all of it there, garbage
#text lets later requests give it back, two slabs each, which shows as a higher
#text p99 until it is done. The largest values of all arms hold interruptions by
#text other programs.
load here . "/plot/style.inc"
set multiplot layout 1,3 title "Latency of small requests after a large one" font ",13"
set logscale xy
set xlabel "small requests since"
set format x "%.0s%c"
set ytics ("10 ns" 10, "100 ns" 100, "1 µs" 1e3, "10 µs" 1e4, \
	"100 µs" 1e5, "1 ms" 1e6, "10 ms" 1e7, "100 ms" 1e8, "1 s" 1e9)
set yrange [10:1e9]
set xrange [50:1.5e6]
set key inside top right
set title "median" font ",11"
set ylabel "one request" offset 1,0
plot for [i=2:words(names0)] data index 0 using 1:i with linespoints \
	lw width(word(names0, i)) lc rgb shade(word(names0, i)) \
	pt point(word(names0, i)) ps 0.6 title label(names0, i)
unset key
unset ylabel
set title "99 %" font ",11"
plot for [i=2:words(names1)] data index 1 using 1:i with linespoints \
	lw width(word(names1, i)) lc rgb shade(word(names1, i)) \
	pt point(word(names1, i)) ps 0.6
set title "largest; dots: end of the large one" font ",11"
plot for [i=2:words(names2)] data index 2 using 1:i with linespoints \
	lw width(word(names2, i)) lc rgb shade(word(names2, i)) \
	pt point(word(names2, i)) ps 0.6, \
	for [i=2:words(names2)] data index 3 \
	using (strcol(1) eq word(names2, i) ? 70 : 1/0):2 with points \
	lc rgb shade(word(names2, i)) pt 7 ps 1.2
unset multiplot
