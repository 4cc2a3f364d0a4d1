/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "base/metrics.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "base/process.h"

/* Each thread counts in one of several shards, placed far apart so that threads do not contend for cache lines; a
 * reader adds up the shards. Gauges that are set live in the first shard only. */
enum { SHARDS = 16, EDGES = 19 };

/* Upper edges of the histograms' buckets, nanoseconds. */
static const int64_t edges[EDGES] = {100000, 250000, 500000, 1000000, 2500000, 5000000, 10000000, 25000000, 50000000,
        100000000, 250000000, 500000000, 1000000000, 2500000000, 5000000000, 10000000000, 25000000000, 50000000000,
        100000000000};

static const struct {
	const char *family, *help;
} histograms[H_COUNT] = {
        [H_DOWNLOAD] = {"symbolicated_download_seconds", "Time of a transfer from a bucket."},
        [H_PARSE] = {"symbolicated_parse_seconds", "Time to parse a symbol file and build its map."},
        [H_STORE] = {"symbolicated_store_seconds", "Time to write a map to memcached."},
};

/* The statuses with a series of their own; 0 stands for all others. */
static const int statuses[] = {200, 400, 401, 403, 404, 405, 413, 499, 500, 503, 0};
enum { STATUSES = sizeof statuses / sizeof statuses[0] };

static const char *const transfers[TRANSFER_COUNT] = {
        [TRANSFER_OK] = "ok", [TRANSFER_MISSING] = "missing", [TRANSFER_FAILED] = "failed"};

enum kind { KIND_counter, KIND_gauge };

static const struct {
	enum kind kind;
	const char *family, *labels, *help;
} rows[M_COUNT] = {
#define METRIC_ROW(name, type, family, labels, help) {KIND_##type, family, labels, help},
        METRICS(METRIC_ROW)
#undef METRIC_ROW
};

struct histogram_shard {
	atomic_int_fast64_t counts[EDGES + 1]; /* not cumulative; the last one counts what is above all edges */
	atomic_int_fast64_t sum;               /* nanoseconds */
};

struct shard {
	_Alignas(CACHE_LINE) atomic_int_fast64_t values[M_COUNT];
	struct histogram_shard
	        histograms[H_COUNT + METRIC_ROUTES + SOURCES_COUNTED]; /* then requests by route, and transfers */
	atomic_int_fast64_t transfers[SOURCES_COUNTED][TRANSFER_COUNT];
	atomic_int_fast64_t requests[METRIC_ROUTES][STATUSES];
};

static struct shard shards[SHARDS];
static _Atomic(const char *) route_names[METRIC_ROUTES];
static atomic_bool source_ill[SOURCES_COUNTED];
static char source_urls[SOURCES_COUNTED][128];    /* as values of labels; empty: there is no such source */
static atomic_uint route_statuses[METRIC_ROUTES]; /* one bit for each of `statuses`: has a series from the start */

static void cell_add(atomic_int_fast64_t *to, int64_t n)
{
	atomic_fetch_add_explicit(to, n, memory_order_relaxed);
}

/* Of a cell of the first shard and its like in the others. */
static int64_t sum_of(const atomic_int_fast64_t *cell)
{
	size_t at = (size_t)((const char *)cell - (const char *)shards);
	int64_t sum = 0;
	for (unsigned i = 0; i < SHARDS; i++)
		sum += atomic_load_explicit((atomic_int_fast64_t *)((char *)&shards[i] + at), memory_order_relaxed);
	return sum;
}

static struct shard *own_shard(void)
{
	static atomic_uint threads;
	static _Thread_local struct shard *own;
	if (!own)
		own = &shards[atomic_fetch_add_explicit(&threads, 1, memory_order_relaxed) % SHARDS];
	return own;
}

void metric_add(enum metric m, int64_t n)
{
	struct shard *s = rows[m].kind == KIND_gauge ? &shards[0] : own_shard();
	cell_add(&s->values[m], n);
}

void metric_set(enum metric m, int64_t value)
{
	atomic_store_explicit(&shards[0].values[m], value, memory_order_relaxed);
}

int64_t metric_get(enum metric m)
{
	return sum_of(&shards[0].values[m]);
}

static void observe(unsigned h, int64_t nanoseconds)
{
	struct histogram_shard *s = &own_shard()->histograms[h];
	unsigned i = 0;
	while (i < EDGES && nanoseconds > edges[i])
		i++;
	cell_add(&s->counts[i], 1);
	cell_add(&s->sum, nanoseconds);
}

void histogram_observe(enum histogram h, int64_t nanoseconds)
{
	observe(h, nanoseconds);
}

static unsigned status_index(int status)
{
	unsigned i = 0;
	while (i < STATUSES - 1 && statuses[i] != status)
		i++;
	return i;
}

void metric_request(unsigned route, int status)
{
	cell_add(&own_shard()->requests[route][status_index(status)], 1);
}

void metric_request_seconds(unsigned route, int64_t nanoseconds)
{
	observe(H_COUNT + route, nanoseconds);
}

void metric_name_route(unsigned route, const char *name)
{
	atomic_store(&route_names[route], name);
}

void metric_route_may_give(unsigned route, const int *some, unsigned count)
{
	for (unsigned i = 0; i < count; i++)
		atomic_fetch_or(&route_statuses[route], 1u << status_index(some[i]));
}

void metric_transfer(unsigned source, enum transfer_outcome outcome, int64_t nanoseconds)
{
	cell_add(&own_shard()->transfers[source][outcome], 1);
	observe(H_COUNT + METRIC_ROUTES + source, nanoseconds);
}

void metric_source_ill(unsigned source, bool ill)
{
	atomic_store(&source_ill[source], ill);
}

void metric_name_source(unsigned source, const char *url)
{
	char *to = source_urls[source], *end = to + sizeof source_urls[source] - 2;
	for (; *url && to < end; url++) {
		if (*url == '"' || *url == '\\')
			*to++ = '\\';
		*to++ = *url;
	}
	*to = 0;
}

static void print_head(struct buffer *out, const char *family, const char *type, const char *help)
{
	buffer_printf(out, "# HELP %s %s\n# TYPE %s %s\n", family, help, family, type);
}

/* A metric family without labels, with one sample, of so many decimals. */
static void print_single(
        struct buffer *out, const char *family, const char *type, const char *help, int decimals, double value)
{
	print_head(out, family, type, help);
	buffer_printf(out, "%s %.*f\n", family, decimals, value);
}

static void print_values(struct buffer *out)
{
	for (unsigned m = 0; m < M_COUNT; m++) {
		const char *labels = rows[m].labels;
		if (m == 0 || strcmp(rows[m].family, rows[m - 1].family) != 0)
			print_head(out, rows[m].family, rows[m].kind == KIND_gauge ? "gauge" : "counter", rows[m].help);
		buffer_printf(out, *labels ? "%s{%s} %lld\n" : "%s%s %lld\n", rows[m].family, labels,
		        (long long)metric_get(m));
	}
}

static void print_requests(struct buffer *out)
{
	static const char family[] = "symbolicated_requests_total";
	print_head(out, family, "counter", "Requests answered, by route and HTTP status.");
	for (unsigned r = 0; r < METRIC_ROUTES; r++) {
		const char *name = atomic_load(&route_names[r]);
		unsigned from_start = atomic_load(&route_statuses[r]);
		char status[16];
		for (unsigned i = 0; name && i < STATUSES; i++) {
			int64_t count = sum_of(&shards[0].requests[r][i]);
			if (!count && !(from_start & 1u << i))
				continue;
			snprintf(status, sizeof status, "%d", statuses[i]);
			buffer_printf(out, "%s{route=\"%s\",status=\"%s\"} %lld\n", family, name,
			        statuses[i] ? status : "other", (long long)count);
		}
	}
}

/* Writes one histogram. _count is the sum of the buckets as read, so that it always equals the +Inf bucket. */
static void print_histogram(struct buffer *out, unsigned h, const char *family, const char *labels)
{
	const char *comma = *labels ? "," : "";
	int64_t count = 0;
	for (unsigned i = 0; i <= EDGES; i++) {
		char edge[16] = "+Inf";
		count += sum_of(&shards[0].histograms[h].counts[i]);
		if (i < EDGES)
			snprintf(edge, sizeof edge, "%g", (double)edges[i] / 1e9);
		buffer_printf(out, "%s_bucket{%s%sle=\"%s\"} %lld\n", family, labels, comma, edge, (long long)count);
	}
	const char *open = *labels ? "{" : "", *close = *labels ? "}" : "";
	buffer_printf(out, "%s_sum%s%s%s %.9f\n", family, open, labels, close,
	        (double)sum_of(&shards[0].histograms[h].sum) / 1e9);
	buffer_printf(out, "%s_count%s%s%s %lld\n", family, open, labels, close, (long long)count);
}

/* With the same routes as the counters, so that the two can be joined. */
static void print_request_seconds(struct buffer *out)
{
	static const char family[] = "symbolicated_request_seconds";
	char label[80];
	print_head(out, family, "histogram", "Time from a request's arrival to its reply, by route.");
	for (unsigned r = 0; r < METRIC_ROUTES; r++) {
		const char *name = atomic_load(&route_names[r]);
		snprintf(label, sizeof label, "route=\"%s\"", name ? name : "");
		if (name)
			print_histogram(out, H_COUNT + r, family, label);
	}
}

static void source_label(char label[192], unsigned source)
{
	snprintf(label, 192, "source=\"%u\",url=\"%.128s\"", source + 1, source_urls[source]);
}

static void print_transfers(struct buffer *out)
{
	static const char family[] = "symbolicated_source_downloads_total";
	char label[192];
	print_head(out, family, "counter", "Transfers from buckets, by source and result.");
	for (unsigned i = 0; i < SOURCES_COUNTED && *source_urls[i]; i++)
		for (unsigned t = 0; t < TRANSFER_COUNT; t++) {
			source_label(label, i);
			buffer_printf(out, "%s{%s,outcome=\"%s\"} %lld\n", family, label, transfers[t],
			        (long long)sum_of(&shards[0].transfers[i][t]));
		}
}

static void print_source_ill(struct buffer *out)
{
	static const char family[] = "symbolicated_source_ill";
	char label[192];
	print_head(out, family, "gauge", "1: the source fails, and is passed over while a later one can answer.");
	for (unsigned i = 0; i < SOURCES_COUNTED && *source_urls[i]; i++) {
		source_label(label, i);
		buffer_printf(out, "%s{%s} %d\n", family, label, atomic_load(&source_ill[i]));
	}
}

static void print_source_seconds(struct buffer *out)
{
	static const char family[] = "symbolicated_source_seconds";
	char label[192];
	print_head(out, family, "histogram", "Time of a transfer from a bucket, by source.");
	for (unsigned i = 0; i < SOURCES_COUNTED && *source_urls[i]; i++) {
		source_label(label, i);
		print_histogram(out, H_COUNT + METRIC_ROUTES + i, family, label);
	}
}

static void print_histograms(struct buffer *out)
{
	print_request_seconds(out);
	print_source_seconds(out);
	print_source_ill(out);
	for (unsigned h = 0; h < H_COUNT; h++) {
		print_head(out, histograms[h].family, "histogram", histograms[h].help);
		print_histogram(out, h, histograms[h].family, "");
	}
}

/* Fields of /proc/self/stat, by their numbers in proc(5). */
enum { STAT_THREADS = 20, STAT_START = 22, STAT_VIRTUAL = 23 };

/* Reads fields 3 to STAT_VIRTUAL into fields[number]; those that are not numbers become 0. */
static bool read_stat(uint64_t fields[STAT_VIRTUAL + 1])
{
	char text[1024];
	int fd = open("/proc/self/stat", O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return false;
	ssize_t n = read(fd, text, sizeof text - 1);
	close(fd);
	if (n <= 0)
		return false;
	text[n] = 0;
	/* Field 2 is the program's name in parentheses, which may itself contain blanks and parentheses. */
	char *at = strrchr(text, ')');
	for (unsigned i = 3; at && i <= STAT_VIRTUAL; i++) {
		at = strchr(at + 1, ' ');
		fields[i] = at ? strtoull(at + 1, NULL, 10) : 0;
	}
	return at;
}

static int64_t open_descriptors(void)
{
	int64_t n = -1; /* not counting the directory's own descriptor */
	DIR *dir = opendir("/proc/self/fd");
	if (!dir)
		return 0;
	for (struct dirent *d; (d = readdir(dir));)
		n += d->d_name[0] != '.';
	closedir(dir);
	return n;
}

static double seconds_of(clockid_t clock)
{
	struct timespec t = {0, 0};
	clock_gettime(clock, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* Seconds since 1970, computed once, so that it does not change when the clock is set. */
static double start_time(double uptime)
{
	static _Atomic double known;
	double none = 0;
	atomic_compare_exchange_strong(&known, &none, seconds_of(CLOCK_REALTIME) - uptime);
	return atomic_load(&known);
}

/* -1: none. */
static double limit_of(int resource)
{
	struct rlimit limit;
	return getrlimit(resource, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY ? (double)limit.rlim_cur : -1;
}

/* Named and defined as in every Prometheus client library. */
static void print_process(struct buffer *out)
{
	uint64_t stat[STAT_VIRTUAL + 1] = {0};
	print_single(out, "process_cpu_seconds_total", "counter", "Processor time, user and system.", 3,
	        seconds_of(CLOCK_PROCESS_CPUTIME_ID));
	print_single(out, "process_open_fds", "gauge", "Open file descriptors.", 0, (double)open_descriptors());
	print_single(out, "process_max_fds", "gauge", "File descriptors that may be open; -1: any number.", 0,
	        limit_of(RLIMIT_NOFILE));
	print_single(out, "process_resident_memory_bytes", "gauge", "Resident memory.", 0, (double)resident_bytes());
	print_single(out, "process_virtual_memory_max_bytes", "gauge", "Address space that may be used; -1: any size.",
	        0, limit_of(RLIMIT_AS));
	if (read_stat(stat)) {
		double up = seconds_of(CLOCK_BOOTTIME) - (double)stat[STAT_START] / (double)sysconf(_SC_CLK_TCK);
		up = up > 0 ? up : 0; /* the start is told in ticks */
		print_single(out, "process_virtual_memory_bytes", "gauge", "Address space in use.", 0,
		        (double)stat[STAT_VIRTUAL]);
		print_single(out, "process_threads", "gauge", "Threads.", 0, (double)stat[STAT_THREADS]);
		print_single(out, "process_start_time_seconds", "gauge", "When the process started, since 1970.", 3,
		        start_time(up));
		print_single(out, "symbolicated_uptime_seconds", "gauge", "Time since the process started.", 3, up);
	}
	print_head(out, "symbolicated_build_info", "gauge", "Always 1; the label tells the version.");
	buffer_printf(out, "symbolicated_build_info{version=\"%s\"} 1\n", FULL_VERSION);
}

void metrics_print(struct buffer *out)
{
	print_values(out);
	print_transfers(out);
	print_requests(out);
	print_histograms(out);
	print_process(out);
}
