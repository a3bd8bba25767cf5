#data bench=region_collapse rows=phase columns=strategy cells=req_s where=regions:1,course:collapse
#order 2
#title Throughput of the collapse
#text Requests a second, phase after phase, in one region that lives through
#text all of them. After 4096-byte payloads zero_all holds two slabs more for
#text each request and walks them all at each reset: it never recovers.
load here . "/plot/style.inc"
set title "Requests per second while the payload changes"
set bmargin 5
set xlabel "phase and its payload, bytes" offset 0,-1
set ylabel "requests per second"
set logscale y
set format y "%.0s%c"
set xrange [0.7:7.3]
set xtics ("1\n1000" 1, "2\n4000" 2, "3\n4096" 3, "4\n4096" 4, \
	"5\n4096" 5, "6\n1000" 6, "7\n1000" 7)
plot for [i=2:words(names0)] data index 0 using 1:i with linespoints \
	lw width(word(names0, i)) lc rgb shade(word(names0, i)) \
	pt point(word(names0, i)) ps 0.8 title label(names0, i)
