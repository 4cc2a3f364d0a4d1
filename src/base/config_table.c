/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "base/config_table.h"

#include "base/clock.h"

#define K ((uint64_t)1 << 10)
#define M ((uint64_t)1 << 20)
#define G ((uint64_t)1 << 30)
#define T ((uint64_t)1 << 40)
#define MSEC ((uint64_t)MS)
#define SEC ((uint64_t)SECOND)
#define MINUTE (60 * SEC)
#define HOUR (60 * MINUTE)
#define DAY (24 * HOUR)

#define AT(field) offsetof(struct config, field), sizeof((struct config *)0)->field

const struct config_row config_rows[] = {
#define FRONT "Connections from nginx"
        {"listen", TYPE_STRING, AT(listen), "", 0, 0, NULL, false, FRONT,
                "Path of a unix socket, or host:port; empty: the socket that systemd or spawn-fcgi passes."},
        {"listen_mode", TYPE_OCTAL, AT(listen_mode), "0660", 0, 0777, NULL, false, FRONT, "Mode of the unix socket."},
        {"listen_group", TYPE_STRING, AT(listen_group), "", 0, 0, NULL, false, FRONT,
                "Group of the unix socket: nginx's."},
        {"listen_backlog", TYPE_COUNT, AT(listen_backlog), "4096", 1, 65535, NULL, false, FRONT,
                "Connections that may wait to be accepted; net.core.somaxconn caps it."},
        {"listen_tcp_anywhere", TYPE_BOOL, AT(listen_tcp_anywhere), "no", 0, 0, NULL, false, FRONT,
                "Allow TCP addresses other than loopback. Anyone who can connect can crash the process."},
        {"workers", TYPE_COUNT, AT(workers), "0", 0, 1024, NULL, false, FRONT,
                "Threads that answer requests; 0: three for each core. At most one more than there are cores run at a "
                "time (turns)."},
        {"client_ipv6_prefix", TYPE_COUNT, AT(client_ipv6_prefix), "64", 0, 128, NULL, true, FRONT,
                "IPv6 addresses that share this many leading bits are one client. Workers serve clients in turn."},
        {"shutdown_timeout", TYPE_DURATION, AT(shutdown_timeout), "30s", 0, HOUR, NULL, true, FRONT,
                "How long requests may take to finish after SIGTERM."},
        {"io_timeout", TYPE_DURATION, AT(io_timeout), "30s", 100 * MSEC, HOUR, NULL, false, FRONT,
                "How long a read from nginx or a write to it may stall."},
        {"reply_rate_min", TYPE_BYTES, AT(reply_rate_min), "16K", 0, G, NULL, true, FRONT,
                "Bytes a second that nginx must take of a reply in the mean; one that is io_timeout behind is cut off. "
                "0: any progress will do."},
        {"request_timeout", TYPE_DURATION, AT(request_timeout), "120s", 100 * MSEC, HOUR, NULL, true, FRONT,
                "A request that takes longer gets 503."},

#define SYMBOLS "Symbol files"
        {"source", TYPE_LIST, AT(sources), "", 0, 0, NULL, false, SYMBOLS,
                "Where symbol files are: http://, https://, s3:// or file:/// URLs, asked in this order "
                "(docs/buckets.md). With debuginfod+ or elf+ in front: executables and debug files "
                "(docs/executables.md). May be repeated."},
        {"source_ca_file", TYPE_LIST, AT(source_ca_files), "", 0, 1, NULL, false, SYMBOLS,
                "URL FILE: for https:// sources below this URL, and s3_endpoint, certificates of the authorities in "
                "this "
                "file (PEM) are trusted instead of the system's. May be repeated."},
        {"source_header", TYPE_LIST, AT(source_headers), "", 0, 1, NULL, false, SYMBOLS,
                "URL NAME: VALUE: a header of every request to http:// and https:// sources below this URL, which then "
                "may not redirect. May be repeated."},
        {"bucket_parallel", TYPE_COUNT, AT(bucket_parallel), "16", 1, 1024, NULL, false, SYMBOLS,
                "Concurrent transfers (turnstile transfers)."},
        {"bucket_parallel_request", TYPE_COUNT, AT(bucket_parallel_request), "8", 1, 1024, NULL, false, SYMBOLS,
                "Concurrent transfers for one request (turnstile transfers)."},
        {"background_share", TYPE_COUNT, AT(background_share), "5", 1, 100, NULL, false, SYMBOLS,
                "Percent of a core for each load while all cores are busy; otherwise loads use idle cores. 100: as "
                "urgent as requests."},
        {"bucket_connect_timeout", TYPE_DURATION, AT(bucket_connect_timeout), "5s", 10 * MSEC, 10 * MINUTE, NULL, false,
                SYMBOLS, "Time to connect to a source."},
        {"bucket_stall_timeout", TYPE_DURATION, AT(bucket_stall_timeout), "10s", SEC, HOUR, NULL, false, SYMBOLS,
                "How long a transfer may stall."},
        {"bucket_total_timeout", TYPE_DURATION, AT(bucket_total_timeout), "300s", 100 * MSEC, DAY, NULL, false, SYMBOLS,
                "Time for a whole transfer."},
        {"bucket_retries", TYPE_COUNT, AT(bucket_retries), "2", 0, 10, NULL, false, SYMBOLS,
                "Retries after a temporary failure."},
        {"bucket_max_size", TYPE_BYTES, AT(bucket_max_size), "4G", 1, T, NULL, false, SYMBOLS,
                "Largest symbol file, inflated; a larger one is corrupt."},
        {"bucket_allow_local_redirects", TYPE_BOOL, AT(bucket_allow_local_redirects), "no", 0, 0, NULL, false, SYMBOLS,
                "Follow redirects to loopback, link-local and private addresses."},
        {"sym_store", TYPE_STRING, AT(sym_store), "", 0, 0, NULL, false, SYMBOLS,
                "Where uploaded symbol files are kept: file:///directory or s3://bucket/prefix. It is asked after the "
                "sources, its folder try last. Empty: such uploads are refused."},
        {"sym_store_files", TYPE_BOOL, AT(sym_store_files), "no", 0, 0, NULL, false, SYMBOLS,
                "Whether sym_store takes executables and debug files, too, which are then a source before its folder "
                "try."},
        {"downloads", TYPE_CHOICE, AT(downloads), "no", 0, 0, "no stream redirect", true, SYMBOLS,
                "Serve symbol files to anyone who asks for /NAME/ID/FILE.sym. redirect: send clients to S3 for files "
                "in S3, by a URL that is valid for five minutes."},
        {"file_downloads", TYPE_CHOICE, AT(file_downloads), "no", 0, 0, "no stream redirect", true, SYMBOLS,
                "Serve executables and debug files of elf+, debuginfod+ and uploads to anyone, as symbol servers of "
                "Windows (/NAME/ID/NAME) and debuginfod (/buildid/ID/...) do, and what source_code names "
                "(docs/executables.md)."},
        {"download_parallel", TYPE_COUNT, AT(download_parallel), "32", 1, 1024, NULL, false, SYMBOLS,
                "Concurrent downloads (turnstile downloads)."},
        {"executables_parallel", TYPE_COUNT, AT(executables_parallel), "2", 1, 64, NULL, false, SYMBOLS,
                "Executables read at a time, by processes that may use two cores each (turnstile reads). Twelve times "
                "as "
                "many are fetched (fetches), and as many requests for assembly and source code (code), and for where "
                "executables are loaded (segments), are served at a time."},
        {"executable_folder", TYPE_STRING, AT(executable_folder), "/var/tmp", 0, 0, NULL, false, SYMBOLS,
                "Directory for unnamed temporary files while executables are read."},
        {"executable_max_size", TYPE_BYTES, AT(executable_max_size), "2G", 1, T, NULL, false, SYMBOLS,
                "Largest executable or debug file, inflated; a larger one is corrupt."},
        {"executable_memory", TYPE_BYTES, AT(executable_memory), "1G", 16 * M, T, NULL, false, SYMBOLS,
                "Memory for reading one, besides the file; one that needs more is corrupt. At most three quarters of "
                "memory."},
        {"executable_timeout", TYPE_DURATION, AT(executable_timeout), "60s", SEC, HOUR, NULL, false, SYMBOLS,
                "Time for reading one; one that needs more is corrupt."},
        {"source_code", TYPE_LIST, AT(source_code), "", 0, 0, NULL, false, SYMBOLS,
                "Where /source/v1 gets source code, for anyone (docs/executables.md): debuginfod, PREFIX=/directory, "
                "or PREFIX=https://host/{repository}/{revision}/{path}. May be repeated."},
        {"symbfile_store", TYPE_STRING, AT(symbfile_store), "", 0, 0, NULL, false, SYMBOLS,
                "Where uploaded symbfiles are kept: file:///directory or s3://bucket/prefix. Empty: such uploads are "
                "refused."},
        {"s3_endpoint", TYPE_STRING, AT(s3_endpoint), "", 0, 0, NULL, false, SYMBOLS,
                "Server of s3:// URLs: https://host or http://host:port; empty: AWS_ENDPOINT_URL_S3, AWS_ENDPOINT_URL, "
                "else Amazon's for the region."},
        {"s3_region", TYPE_STRING, AT(s3_region), "", 0, 0, NULL, false, SYMBOLS,
                "Region of s3:// URLs; empty: AWS_REGION, AWS_DEFAULT_REGION, else us-east-1."},
        {"s3_addressing", TYPE_CHOICE, AT(s3_addressing), "path", 0, 0, "path virtual", false, SYMBOLS,
                "path: https://host/bucket/key; virtual: https://bucket.host/key."},
        {"s3_credentials_file", TYPE_STRING, AT(s3_credentials_file), "", 0, 0, NULL, false, SYMBOLS,
                "Keys for s3:// URLs, in the form of ~/.aws/credentials; empty: from the environment "
                "(docs/buckets.md)."},
        {"s3_profile", TYPE_STRING, AT(s3_profile), "default", 0, 0, NULL, false, SYMBOLS, "Section of that file."},
        {"s3_instance_keys", TYPE_BOOL, AT(s3_instance_keys), "no", 0, 0, NULL, false, SYMBOLS,
                "Without other keys, ask the machine's metadata service (EC2, IMDSv2) for its role's keys."},

#define MEMORY "Memory"
        {"memory", TYPE_BYTES, AT(memory), "0", 0, 64 * T, NULL, false, MEMORY,
                "Most resident memory of the process; 0: seven tenths of what the machine and control groups allow."},
        {"cache_size", TYPE_BYTES, AT(cache_size), "64T", 0, 64 * T, NULL, false, MEMORY,
                "Most memory for cached maps and loads; at most three quarters of memory."},
        {"load_memory_max", TYPE_BYTES, AT(load_memory_max), "64T", M, 64 * T, NULL, false, MEMORY,
                "Most memory for loading one module; one that needs more is too large. At most three quarters of "
                "memory."},
        {"max_memory", TYPE_BYTES, AT(max_memory), "0", 0, 64 * T, NULL, false, MEMORY,
                "Older name of memory; the smaller of the two applies."},

#define CACHES "Caches"
        {"memcached", TYPE_LIST, AT(memcached), "", 0, 0, NULL, false, CACHES,
                "memcached servers: paths of unix sockets, or address:port with a numeric address. May be repeated."},
        {"memcached_connect_timeout", TYPE_DURATION, AT(memcached_connect_timeout), "150ms", MSEC, MINUTE, NULL, false,
                CACHES, "Time to connect to memcached."},
        {"memcached_timeout", TYPE_DURATION, AT(memcached_timeout), "200ms", MSEC, MINUTE, NULL, false, CACHES,
                "How long memcached may be silent before it counts as hung."},
        {"memcached_item_max", TYPE_BYTES, AT(memcached_item_max), "1M", K, G, NULL, false, CACHES,
                "Largest item that memcached accepts: its option -I."},
        {"memcached_secret_file", TYPE_STRING, AT(memcached_secret_file), "", 0, 0, NULL, false, CACHES,
                "File with a secret (openssl rand -hex 32), the same on all hosts. Values without it are rejected. "
                "Empty: anyone who can write to memcached is trusted."},
        {"codec", TYPE_CHOICE, AT(codec), "lz4", 0, 0, "none lz4 zstd", false, CACHES,
                "Compression of values in memcached."},
        {"revalidate_after", TYPE_DURATION, AT(revalidate_after), "5s", 0, DAY, NULL, false, CACHES,
                "How long a module is used before checking whether another process invalidated it."},
        {"root_max_age", TYPE_DURATION, AT(root_max_age), "1d", SEC, 29 * DAY, NULL, false, CACHES,
                "Modules in memcached are loaded again after this time."},
        {"finish_after", TYPE_DURATION, AT(finish_after), "30s", 0, DAY, NULL, false, CACHES,
                "A new module gets only the pages that requests need. The others follow when it is asked for again, or "
                "after this time without loads; 0: at once."},
        {"missing_ttl", TYPE_DURATION, AT(missing_ttl), "10m", 0, 30 * DAY, NULL, false, CACHES,
                "How long to remember that no source has a symbol file, or a file that an executable needs."},
        {"corrupt_ttl", TYPE_DURATION, AT(corrupt_ttl), "1h", 0, 30 * DAY, NULL, false, CACHES,
                "How long to remember that a symbol file is corrupt."},
        {"failure_ttl_min", TYPE_DURATION, AT(failure_ttl_min), "1s", 0, DAY, NULL, false, CACHES,
                "How long to remember a temporary failure; doubled while the source keeps failing."},
        {"failure_ttl_max", TYPE_DURATION, AT(failure_ttl_max), "10s", 0, DAY, NULL, false, CACHES,
                "Upper limit of failure_ttl_min when it doubles."},
        {"failures_max", TYPE_COUNT, AT(failures_max), "100000", 1, 100000000, NULL, false, CACHES,
                "Modules remembered as missing, corrupt or failing; the oldest go first."},
        {"lookup", TYPE_CHOICE, AT(lookup), "covering", 0, 0, "covering nearest", false, CACHES,
                "covering: the function whose range holds the offset; nearest: the last symbol at or before it."},

#define LIMITS "Limits"
        {"max_body", TYPE_BYTES, AT(max_body), "32M", 1, 4 * G, NULL, true, LIMITS,
                "Largest request body as sent; above it 413."},
        {"max_body_inflated", TYPE_BYTES, AT(max_body_inflated), "128M", 1, 16 * G, NULL, true, LIMITS,
                "Largest request body inflated; above it 413."},
        {"max_reply", TYPE_BYTES, AT(max_reply), "192M", 1, 16 * G, NULL, true, LIMITS,
                "Largest reply before compression; above it 400."},
        {"max_upload", TYPE_BYTES, AT(max_upload), "64M", 1, 4 * G, NULL, true, LIMITS,
                "Largest uploaded part of a symbfile; above it 413."},
        {"max_sym_upload", TYPE_BYTES, AT(max_sym_upload), "1G", 1, T, NULL, true, LIMITS,
                "Largest uploaded symbol file or ZIP; above it 413."},
        {"upload_parallel", TYPE_COUNT, AT(upload_parallel), "4", 1, 1024, NULL, true, LIMITS,
                "Concurrent uploads and requests about them (turnstile uploads)."},
        {"max_jobs", TYPE_COUNT, AT(max_jobs), "1000", 1, 1000000, NULL, true, LIMITS, "Jobs of a request."},
        {"max_frames", TYPE_COUNT, AT(max_frames), "200000", 1, 100000000, NULL, true, LIMITS, "Frames of a request."},
        {"max_stacks", TYPE_COUNT, AT(max_stacks), "1000000", 1, 100000000, NULL, true, LIMITS, "Stacks of a request."},
        {"max_modules", TYPE_COUNT, AT(max_modules), "10000", 1, 10000000, NULL, true, LIMITS, "Modules of a request."},
        {"cold_modules", TYPE_COUNT, AT(cold_modules), "1000", 1, 10000000, NULL, false, LIMITS,
                "Modules in no cache that one request may load; above it 503, but what was loaded is kept."},
        {"cold_requests", TYPE_COUNT, AT(cold_requests), "64", 1, 1000000, NULL, false, LIMITS,
                "Requests that may load modules concurrently (turnstile loads)."},
        {"cold_queue", TYPE_COUNT, AT(cold_queue), "256", 0, 1000000, NULL, false, LIMITS,
                "Requests that may wait for their turn to load modules, and as many in the line of each turnstile; "
                "more get "
                "503."},
        {"cold_wait", TYPE_DURATION, AT(cold_wait), "2s", 0, HOUR, NULL, false, LIMITS,
                "How long a request waits for its turn to load modules, or in the line of a turnstile; then 503."},
        {"gzip_min_size", TYPE_BYTES, AT(gzip_min_size), "1400", 0, T, NULL, true, LIMITS,
                "Smallest reply that is compressed."},

#define OPERATION "Operation"
        {"keys_file", TYPE_STRING, AT(keys_file), "", 0, 0, NULL, true, OPERATION,
                "File of API keys, made by symbolicated-keys."},
        {"drain_file", TYPE_STRING, AT(drain_file), "/run/symbolicated/drain", 0, 0, NULL, true, OPERATION,
                "While this file exists, /__lbheartbeat__ answers 503, so that a balancer takes the host out; all else "
                "works as usual."},
        {"seccomp", TYPE_CHOICE, AT(seccomp), "auto", 0, 0, "off auto on", false, OPERATION,
                "Refuse system calls that the process never needs. auto: if the kernel can; on: else do not start."},
        {"log_file", TYPE_STRING, AT(log_file), "", 0, 0, NULL, true, OPERATION,
                "Log file, opened again on SIGHUP; empty: standard error."},
        {"log_level", TYPE_CHOICE, AT(log_level), "info", 0, 0, "error warning info debug", true, OPERATION,
                "Lowest level that is logged."},
        {"log_health_checks", TYPE_BOOL, AT(log_health_checks), "no", 0, 0, NULL, true, OPERATION,
                "Log all requests for /__lbheartbeat__, /__heartbeat__ and /__metrics__; no: only failures."},
        {.key = NULL},
};

const struct config_flag config_flags[] = {
        {"help", "print this and exit", CONFIG_HELP},
        {"version", "print the version and exit", CONFIG_VERSION},
        {"check-config", "check the settings, ask the sources, and exit", CONFIG_CHECK},
        {"json", "with --check-config: lines of JSON, and no source is asked", CONFIG_JSON},
        {"print-config-markdown", "print the settings as Markdown and exit", CONFIG_PRINT_MARKDOWN},
        {"print-config-example", "print an example settings file and exit", CONFIG_PRINT_EXAMPLE},
        {.name = NULL},
};

_Static_assert(sizeof config_rows / sizeof config_rows[0] <= CONFIG_ROWS_MAX, "CONFIG_ROWS_MAX is too small");

/* Flags are written with dashes, keys with underscores; both spellings work everywhere. */
static char folded(char c)
{
	return c == '-' ? '_' : c;
}

bool config_same_name(const char *a, const char *b)
{
	while (*a && folded(*a) == folded(*b)) {
		a++;
		b++;
	}
	return !*a && !*b;
}

const struct config_row *config_find_row(const char *key)
{
	for (const struct config_row *row = config_rows; row->key; row++)
		if (config_same_name(row->key, key))
			return row;
	return NULL;
}

enum err config_unknown_key(const char *key, struct error *e)
{
	return error_set(e, ERR_CONFIG, "unknown key \"%.100s\"", key);
}
