/* SPDX-License-Identifier: BSD-2-Clause */
/* perf_main - options, and the lines that say on what a program measures. */
#include "perf.h"

#include <getopt.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#ifndef PERF_VERSION
# define PERF_VERSION "unknown"
#endif
#ifndef PERF_FLAGS
# define PERF_FLAGS "unknown"
#endif
#ifdef __clang__
# define PERF_COMPILER "clang " __clang_version__
#else
# define PERF_COMPILER "gcc " __VERSION__
#endif

struct perf_options perf = {
	.level = PERF_DEFAULT,
	.seed = 1,
};

/* What two readings of the clock cost, in ns: part of each single time. */
static double clock_cost(void)
{
	double ns[101];

	for (size_t i = 0; i < 101; i++) {
		uint64_t start = perf_now_ns();

		ns[i] = (double)(perf_now_ns() - start);
	}
	return perf_spread(ns, 101).median;
}

static void print_cpu(void)
{
	char line[256];
	FILE *f = fopen("/proc/cpuinfo", "r");

	printf("# cpu: ");
	while (f != NULL && fgets(line, sizeof(line), f) != NULL) {
		char *colon = strchr(line, ':');

		if (strncmp(line, "model name", 10) != 0 || colon == NULL)
			continue;
		line[strcspn(line, "\n")] = 0;
		printf("%s, ", colon + 2);
		break;
	}
	if (f != NULL)
		fclose(f);
	printf("%ld online\n", sysconf(_SC_NPROCESSORS_ONLN));
}

/* Kernel, page size, memory, and how busy the machine is: times of a loaded
 * one are for comparing arms, not for quoting. */
static void print_system(void)
{
	long page = sysconf(_SC_PAGESIZE), pages = sysconf(_SC_PHYS_PAGES);
	struct utsname name;
	double load = 0;

	if (uname(&name) == 0)
		printf("# system: %s %s %s, pages of %ld bytes, %ld MiB\n",
		       name.sysname, name.release, name.machine, page,
		       pages / 1024 * page / 1024);
	if (getloadavg(&load, 1) == 1)
		printf("# load: %.1f when it started\n", load);
}

static void print_header(void)
{
	static const char *const levels[] = {"quick", "default", "full"};
	const char *revision = getenv("PERF_REVISION");

	print_cpu();
	print_system();
	printf("# compiler: %s\n# flags: %s\n", PERF_COMPILER, PERF_FLAGS);
	printf("# revision: %s\n", revision != NULL ? revision : PERF_VERSION);
	printf("# seed: %llu\n# rounds: %zu\n# level: %s\n",
	       (unsigned long long)perf.seed, perf.rounds, levels[perf.level]);
	printf("# clock_ns: %.0f (in each operation that is timed alone)\n",
	       clock_cost());
	fflush(stdout);
}

static void usage(const char *name, int status)
{
	fprintf(status != 0 ? stderr : stdout,
	        "usage: %s [--quick|--full] [--rounds N] [--seed N]"
	        " [--only NAME] [--list] [--count|--count-all]\n",
	        name);
	exit(status);
}

static void list_benches(const struct perf_bench *benches, size_t count)
{
	for (size_t i = 0; i < count; i++)
		printf("%s\n", benches[i].name);
	exit(0);
}

static unsigned long long parse_number(const char *text)
{
	char *end;
	unsigned long long n = strtoull(text, &end, 0);

	if (end == text || *end != 0) {
		fprintf(stderr, "perf: '%s' is not a number\n", text);
		exit(2);
	}
	return n;
}

static void parse(int argc, char **argv, const struct perf_bench *benches,
                  size_t count)
{
	static const struct option options[] = {
		{"quick", no_argument, NULL, 'q'},
		{"full", no_argument, NULL, 'f'},
		{"rounds", required_argument, NULL, 'r'},
		{"seed", required_argument, NULL, 's'},
		{"only", required_argument, NULL, 'o'},
		{"list", no_argument, NULL, 'l'},
		{"count", no_argument, NULL, 'c'},
		{"count-all", no_argument, NULL, 'a'},
		{"help", no_argument, NULL, 'h'},
		{NULL, 0, NULL, 0},
	};
	int c;

	while ((c = getopt_long(argc, argv, "h", options, NULL)) != -1) {
		switch (c) {
		case 'q':
			perf.level = PERF_QUICK;
			break;
		case 'f':
			perf.level = PERF_FULL;
			break;
		case 'r':
			perf.rounds = parse_number(optarg);
			break;
		case 's':
			perf.seed = parse_number(optarg);
			break;
		case 'o':
			perf.only = optarg;
			break;
		case 'l':
			list_benches(benches, count);
			break;
		case 'a':
			perf.count_all = true; /* fall through */
		case 'c':
			perf.counting = true;
			break;
		default:
			usage(argv[0], c == 'h' ? 0 : 2);
		}
	}
	if (optind != argc)
		usage(argv[0], 2);
}

int perf_main(int argc, char **argv, const struct perf_bench *benches,
              size_t count)
{
	parse(argc, argv, benches, count);
	/* bench.md asks for at least nine; the long form takes more. */
	if (perf.rounds == 0)
		perf.rounds = perf_pick(9, 9, 15);
	if (perf.rounds > PERF_ROUNDS_MAX)
		perf.rounds = PERF_ROUNDS_MAX;
	if (!perf.counting)
		print_header();
	for (size_t i = 0; i < count; i++) {
		const struct perf_bench *bench = &benches[i];

		if (perf.only != NULL && !strstr(bench->name, perf.only))
			continue;
		if (!perf.counting || !bench->is_timed_only)
			bench->run();
	}
	return 0;
}
