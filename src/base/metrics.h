/* SPDX-License-Identifier: Apache-2.0 */
/* Counters, gauges and histograms of the process, and their Prometheus text. One table names them all. */
#ifndef BASE_METRICS_H
#define BASE_METRICS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buffer.h"

/* X(enum name, type, family, labels or "", help). Rows of one family stand together. */
#define METRICS(X)                                                                                                    \
	X(FRAMES_TOTAL, counter, "symbolicated_frames_total", "result=\"symbolicated\"",                              \
	        "Frames answered, by result.")                                                                        \
	X(FRAMES_UNKNOWN, counter, "symbolicated_frames_total", "result=\"unknown\"", "")                             \
	X(FRAMES_SKIPPED, counter, "symbolicated_frames_total", "result=\"skipped\"", "")                             \
	X(MODULES_FOUND, counter, "symbolicated_modules_total", "result=\"found\"",                                   \
	        "Modules that requests referred to, by result.")                                                      \
	X(MODULES_MISSING, counter, "symbolicated_modules_total", "result=\"missing\"", "")                           \
	X(CACHE_ROOT_PROCESS, counter, "symbolicated_cache_lookups_total", "what=\"root\",level=\"process\"",         \
	        "Cache lookups, by what was looked up and the level that had it (none: loaded from a bucket).")       \
	X(CACHE_ROOT_MEMCACHED, counter, "symbolicated_cache_lookups_total", "what=\"root\",level=\"memcached\"", "") \
	X(CACHE_ROOT_NONE, counter, "symbolicated_cache_lookups_total", "what=\"root\",level=\"none\"", "")           \
	X(CACHE_FAILURE_PROCESS, counter, "symbolicated_cache_lookups_total", "what=\"failure\",level=\"process\"",   \
	        "")                                                                                                   \
	X(CACHE_PAGE_PROCESS, counter, "symbolicated_cache_lookups_total", "what=\"page\",level=\"process\"", "")     \
	X(CACHE_PAGE_MEMCACHED, counter, "symbolicated_cache_lookups_total", "what=\"page\",level=\"memcached\"", "") \
	X(CACHE_PAGE_NONE, counter, "symbolicated_cache_lookups_total", "what=\"page\",level=\"none\"", "")           \
	X(CACHE_FRAME_PROCESS, counter, "symbolicated_cache_lookups_total", "what=\"frame\",level=\"process\"", "")   \
	X(CACHE_FRAME_NONE, counter, "symbolicated_cache_lookups_total", "what=\"frame\",level=\"none\"", "")         \
	X(LOOKUPS_SHARED, counter, "symbolicated_lookups_shared_total", "",                                           \
	        "Lookups of large requests that idle workers did.")                                                   \
	X(PAGES_INVALID, counter, "symbolicated_pages_invalid_total", "",                                             \
	        "Values from memcached that failed a check and were taken as missing.")                               \
	X(PAGES_RELOADED, counter, "symbolicated_page_reloads_total", "",                                             \
	        "Modules loaded again because memcached had lost a page.")                                            \
	X(PAGES_STORED, counter, "symbolicated_pages_stored_total", "", "Pages and roots written to memcached.")      \
	X(STORES_FAILED, counter, "symbolicated_stores_failed_total", "",                                             \
	        "Maps that could not be stored in memcached.")                                                        \
	X(MEMCACHED_ERRORS, counter, "symbolicated_memcached_errors_total", "",                                       \
	        "Calls to memcached that failed or timed out.")                                                       \
	X(MEMCACHED_BREAKER_OPEN, counter, "symbolicated_memcached_breaker_open_total", "",                           \
	        "Times that a memcached server was left alone after timeouts.")                                       \
	X(MEMCACHED_GONE, gauge, "symbolicated_memcached_servers_gone", "",                                           \
	        "Memcached servers that do not answer and are left alone.")                                           \
	X(DOWNLOADS_OK, counter, "symbolicated_downloads_total", "outcome=\"ok\"",                                    \
	        "Transfers from buckets, by outcome.")                                                                \
	X(DOWNLOADS_MISSING, counter, "symbolicated_downloads_total", "outcome=\"missing\"", "")                      \
	X(DOWNLOADS_FAILED, counter, "symbolicated_downloads_total", "outcome=\"failed\"", "")                        \
	X(DOWNLOADS_CORRUPT, counter, "symbolicated_downloads_total", "outcome=\"corrupt\"", "")                      \
	X(DOWNLOADS_TOO_LARGE, counter, "symbolicated_downloads_total", "outcome=\"too_large\"", "")                  \
	X(DOWNLOAD_BYTES_WIRE, counter, "symbolicated_download_bytes_total", "form=\"wire\"",                         \
	        "Bytes from buckets, as received and inflated.")                                                      \
	X(DOWNLOAD_BYTES_TEXT, counter, "symbolicated_download_bytes_total", "form=\"text\"", "")                     \
	X(PARSE_DAMAGED_LINES, counter, "symbolicated_damaged_lines_total", "",                                       \
	        "Lines of symbol files that were skipped as damaged.")                                                \
	X(UPLOADS_STORED, counter, "symbolicated_uploads_total", "outcome=\"stored\"",                                \
	        "Parts of symbfiles that were uploaded, by outcome.")                                                 \
	X(UPLOADS_REFUSED, counter, "symbolicated_uploads_total", "outcome=\"refused\"", "")                          \
	X(UPLOADS_FAILED, counter, "symbolicated_uploads_total", "outcome=\"failed\"", "")                            \
	X(UPLOAD_BYTES, counter, "symbolicated_upload_bytes_total", "", "Bytes of symbfiles that were stored.")       \
	X(SYM_UPLOADS_OK, counter, "symbolicated_sym_uploads_total", "outcome=\"stored\"",                            \
	        "Symbol files that were uploaded, by outcome.")                                                       \
	X(SYM_UPLOADS_REFUSED, counter, "symbolicated_sym_uploads_total", "outcome=\"refused\"", "")                  \
	X(SYM_UPLOADS_FAILED, counter, "symbolicated_sym_uploads_total", "outcome=\"failed\"", "")                    \
	X(SYM_UPLOAD_BYTES, counter, "symbolicated_sym_upload_bytes_total", "",                                       \
	        "Bytes of uploaded symbol files, unpacked.")                                                          \
	X(LOADS_IN_FLIGHT, gauge, "symbolicated_loads_in_flight", "",                                                 \
	        "Modules that are being loaded, or stored in memcached.")                                             \
	X(LOADS_TOTAL, counter, "symbolicated_loads_total", "", "Modules loaded from a bucket and parsed.")           \
	X(LEASE_WAITS, counter, "symbolicated_lease_waits_total", "", "Loads that waited for another process's.")     \
	X(LOADS_WAIT_PROCESSOR, gauge, "symbolicated_loads_waiting_for_processor", "",                                \
	        "Threads that load and had less than half of a core in the last 100 ms: others keep it.")             \
	X(COLD_REFUSED, counter, "symbolicated_cold_refused_total", "",                                               \
	        "Requests answered 503 because too many were loading, or memory was full.")                           \
	X(HELD_UP_MEMORY, gauge, "symbolicated_requests_held_up", "by=\"memory\"",                                    \
	        "Requests whose loads cannot begin or go on, by what they wait for.")                                 \
	X(HELD_UP_PLACES, gauge, "symbolicated_requests_held_up", "by=\"places\"", "")                                \
	X(HELD_UP_TRANSFERS, gauge, "symbolicated_requests_held_up", "by=\"transfers\"", "")                          \
	X(HELD_UP_SHARE, gauge, "symbolicated_requests_held_up", "by=\"share\"", "")                                  \
	X(HELD_UP_HOSTS, gauge, "symbolicated_requests_held_up", "by=\"other_host\"", "")                             \
	X(HELD_BACK, counter, "symbolicated_held_back_total", "",                                                     \
	        "Requests that waited or were refused because their client has many others.")                         \
	X(TURNSTILE_INSIDE_DOWNLOADS, gauge, "symbolicated_turnstile_inside", "for=\"downloads\"",                    \
	        "Places in use of what only so many do at a time.")                                                   \
	X(TURNSTILE_INSIDE_UPLOADS, gauge, "symbolicated_turnstile_inside", "for=\"uploads\"", "")                    \
	X(TURNSTILE_INSIDE_CODE, gauge, "symbolicated_turnstile_inside", "for=\"code\"", "")                          \
	X(TURNSTILE_INSIDE_SEGMENTS, gauge, "symbolicated_turnstile_inside", "for=\"segments\"", "")                  \
	X(TURNSTILE_INSIDE_FETCHES, gauge, "symbolicated_turnstile_inside", "for=\"fetches\"", "")                    \
	X(TURNSTILE_INSIDE_READS, gauge, "symbolicated_turnstile_inside", "for=\"reads\"", "")                        \
	X(TURNSTILE_INSIDE_LOADS, gauge, "symbolicated_turnstile_inside", "for=\"loads\"", "")                        \
	X(TURNSTILE_WAITING_DOWNLOADS, gauge, "symbolicated_turnstile_waiting", "for=\"downloads\"",                  \
	        "Those that wait for such a place.")                                                                  \
	X(TURNSTILE_WAITING_UPLOADS, gauge, "symbolicated_turnstile_waiting", "for=\"uploads\"", "")                  \
	X(TURNSTILE_WAITING_CODE, gauge, "symbolicated_turnstile_waiting", "for=\"code\"", "")                        \
	X(TURNSTILE_WAITING_SEGMENTS, gauge, "symbolicated_turnstile_waiting", "for=\"segments\"", "")                \
	X(TURNSTILE_WAITING_FETCHES, gauge, "symbolicated_turnstile_waiting", "for=\"fetches\"", "")                  \
	X(TURNSTILE_WAITING_READS, gauge, "symbolicated_turnstile_waiting", "for=\"reads\"", "")                      \
	X(TURNSTILE_WAITING_LOADS, gauge, "symbolicated_turnstile_waiting", "for=\"loads\"", "")                      \
	X(TURNSTILE_REFUSED_DOWNLOADS, counter, "symbolicated_turnstile_refused_total", "for=\"downloads\"",          \
	        "Those that got none in time.")                                                                       \
	X(TURNSTILE_REFUSED_UPLOADS, counter, "symbolicated_turnstile_refused_total", "for=\"uploads\"", "")          \
	X(TURNSTILE_REFUSED_CODE, counter, "symbolicated_turnstile_refused_total", "for=\"code\"", "")                \
	X(TURNSTILE_REFUSED_SEGMENTS, counter, "symbolicated_turnstile_refused_total", "for=\"segments\"", "")        \
	X(TURNSTILE_REFUSED_FETCHES, counter, "symbolicated_turnstile_refused_total", "for=\"fetches\"", "")          \
	X(TURNSTILE_REFUSED_READS, counter, "symbolicated_turnstile_refused_total", "for=\"reads\"", "")              \
	X(TURNSTILE_REFUSED_LOADS, counter, "symbolicated_turnstile_refused_total", "for=\"loads\"", "")              \
	X(CACHE_BYTES, gauge, "symbolicated_cache_bytes", "", "Bytes of maps held in the process's cache.")           \
	X(CACHE_MAPS, gauge, "symbolicated_cache_maps", "", "Maps held in the process's cache.")                      \
	X(CACHE_EVICTED, counter, "symbolicated_cache_evicted_bytes_total", "",                                       \
	        "Bytes dropped from the process's cache to stay in its budget.")                                      \
	X(LOADING_BYTES, gauge, "symbolicated_loading_bytes", "",                                                     \
	        "Bytes of texts of symbol files, and of maps of symbfiles that are being built.")                     \
	X(LAST_MAP_RAW_BYTES, gauge, "symbolicated_last_map_bytes", "form=\"raw\"",                                   \
	        "Size of the map built last, raw and as stored in memcached.")                                        \
	X(LAST_MAP_STORED_BYTES, gauge, "symbolicated_last_map_bytes", "form=\"stored\"", "")                         \
	X(MEMORY_PAGES, gauge, "symbolicated_memory_bytes", "kind=\"pages\"",                                         \
	        "Memory that is charged to the account, by what it is for.")                                          \
	X(MEMORY_TEXTS, gauge, "symbolicated_memory_bytes", "kind=\"texts\"", "")                                     \
	X(MEMORY_MAKERS, gauge, "symbolicated_memory_bytes", "kind=\"makers\"", "")                                   \
	X(MEMORY_RECORDS, gauge, "symbolicated_memory_bytes", "kind=\"records\"", "")                                 \
	X(MEMORY_UPLOADS, gauge, "symbolicated_memory_bytes", "kind=\"uploads\"", "")                                 \
	X(MEMORY_BODIES, gauge, "symbolicated_memory_bytes", "kind=\"bodies\"", "")                                   \
	X(MEMORY_REPLIES, gauge, "symbolicated_memory_bytes", "kind=\"replies\"", "")                                 \
	X(MEMORY_HELPER, gauge, "symbolicated_memory_bytes", "kind=\"helper\"", "")                                   \
	X(MEMORY_BESIDE, gauge, "symbolicated_memory_beside_bytes", "",                                               \
	        "Resident memory that is not charged, as measured last.")                                             \
	X(MEMORY_LIMIT, gauge, "symbolicated_memory_limit_bytes", "", "The setting memory; 0: no limit.")             \
	X(FAILURES_REMEMBERED, gauge, "symbolicated_failures_remembered", "",                                         \
	        "Modules remembered as missing, corrupt or failing.")                                                 \
	X(INVALIDATIONS, counter, "symbolicated_invalidations_total", "",                                             \
	        "Modules forgotten because of DELETE or a changed marker.")                                           \
	X(CONNECTIONS, gauge, "symbolicated_connections", "", "FastCGI connections that are open.")                   \
	X(REQUESTS_IN_FLIGHT, gauge, "symbolicated_requests_in_flight", "", "Requests that are being answered.")      \
	X(REPLIES_WAITING, gauge, "symbolicated_replies_waiting", "", "Replies that wait for their readers.")         \
	X(REPLIES_SLOW, counter, "symbolicated_replies_slow_total", "",                                               \
	        "Replies cut off because their readers were too slow.")                                               \
	X(LOG_LINES_LOST, counter, "symbolicated_log_lines_lost_total", "",                                           \
	        "Lines of the log that could not be written.")

enum metric {
#define METRIC_ENUM(name, type, family, labels, help) M_##name,
	METRICS(METRIC_ENUM)
#undef METRIC_ENUM
	        M_COUNT
};

void metric_add(enum metric m, int64_t n);
void metric_set(enum metric m, int64_t value); /* gauges only */
int64_t metric_get(enum metric m);

/* Histograms of seconds, with fixed buckets from 100 µs to 100 s. */
enum histogram { H_DOWNLOAD, H_PARSE, H_STORE, H_COUNT };
void histogram_observe(enum histogram h, int64_t nanoseconds);

/* Transfers by source: its number (below SOURCES_COUNTED; the parts of sym_store come behind those in the settings), as
 * it answered. What is in the file is judged later: symbolicated_downloads_total. */
enum { SOURCES_COUNTED = 35 };
enum transfer_outcome { TRANSFER_OK, TRANSFER_MISSING, TRANSFER_FAILED, TRANSFER_COUNT };
void metric_transfer(unsigned source, enum transfer_outcome outcome, int64_t nanoseconds);
/* Copies url, whose end may be cut; a source without one has no series. Only at the start. */
void metric_name_source(unsigned source, const char *url);
void metric_source_ill(unsigned source, bool ill);

/* Requests by route (an index into the router's table, below METRIC_ROUTES) and status. */
enum { METRIC_ROUTES = 32 };
void metric_request(unsigned route, int status);
void metric_request_seconds(unsigned route, int64_t nanoseconds);
/* name is kept, not copied, and contains nothing that a label's value must escape. A route without one has no series.
 */
void metric_name_route(unsigned route, const char *name);
/* These statuses have a series before the first such reply, so that no increase goes unseen. */
void metric_route_may_give(unsigned route, const int *some, unsigned count);

/* Everything as Prometheus text, including the process metrics that its client libraries have, uptime and version. */
void metrics_print(struct buffer *out);

#endif
