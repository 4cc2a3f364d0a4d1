/* SPDX-License-Identifier: Apache-2.0 */
/* The settings: one table of key, type, default, range and meaning serves the file, the flags and the documentation. */
#ifndef BASE_CONFIG_H
#define BASE_CONFIG_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "base/error.h"
#include "base/log.h"

enum { CONFIG_LIST_MAX = 32 };

/* A key that may be given several times (or as a list separated by blanks); an empty value empties it. */
struct config_list {
	char *items[CONFIG_LIST_MAX];
	unsigned count;
	unsigned lines[CONFIG_LIST_MAX]; /* the line of the file that set each; 0: set by a flag */
};

enum config_downloads { DOWNLOADS_NO, DOWNLOADS_STREAM, DOWNLOADS_REDIRECT };
enum config_codec { CODEC_CHOICE_NONE, CODEC_CHOICE_LZ4, CODEC_CHOICE_ZSTD };
enum config_addressing { S3_PATH, S3_VIRTUAL };
enum config_sandbox { SANDBOX_OFF, SANDBOX_AUTO, SANDBOX_ON };
enum config_lookup { LOOKUP_COVERING, LOOKUP_NEAREST };

/* Immutable once the server runs; SIGHUP makes a new one. Times are nanoseconds, sizes bytes. */
struct config {
	bool read_by_all; /* everybody on this machine may read the file that was read; false in a copy */

	/* front */
	char *listen;         /* unix socket path or host:port; empty: descriptor 0 or systemd's 3 */
	uint64_t listen_mode; /* of the unix socket, octal in the file */
	char *listen_group;   /* of the unix socket; empty: the process's */
	uint64_t listen_backlog;
	bool listen_tcp_anywhere;    /* allow TCP that is not loopback */
	uint64_t workers;            /* threads that answer requests; 0: three a core */
	uint64_t client_ipv6_prefix; /* bits of an IPv6 address that tell clients apart */
	int64_t shutdown_timeout;    /* SIGTERM: how long requests in hand may take */
	int64_t io_timeout;          /* SO_RCVTIMEO and SO_SNDTIMEO of connections from nginx */
	uint64_t reply_rate_min;     /* bytes a second that a reply's reader must take */
	int64_t request_timeout;     /* a request not answered by then gets 503 */

	/* symbols */
	struct config_list sources; /* http://…/, https://…/, s3://…, file:///…, asked in this order */
	struct config_list source_ca_files, source_headers; /* URL VALUE: see config_for_url */
	uint64_t bucket_parallel;                           /* transfers in all */
	uint64_t bucket_parallel_request;                   /* transfers of one request */
	uint64_t background_share;                          /* percent of a core that loading is owed */
	int64_t bucket_connect_timeout, bucket_stall_timeout, bucket_total_timeout;
	uint64_t bucket_retries;           /* further tries of a transfer that failed for a temporary reason */
	uint64_t bucket_max_size;          /* of one object, inflated */
	char *executable_folder;           /* where executables are while they are read */
	uint64_t executable_max_size;      /* of one, inflated */
	uint64_t executable_memory;        /* that its reader may take */
	int64_t executable_timeout;        /* for its reader */
	uint64_t executables_parallel;     /* read at a time */
	struct config_list source_code;    /* "debuginfod", PREFIX=/directory, PREFIX=https://…: of source code */
	bool bucket_allow_local_redirects; /* let a redirect lead to loopback, link-local or private addresses */
	char *s3_endpoint; /* http://… or https://…; empty: from the environment, else Amazon's for the region */
	char *s3_region;   /* empty: from the environment, else us-east-1 */
	enum config_addressing s3_addressing;
	char *s3_credentials_file, *s3_profile; /* empty: the keys of the environment, if any */
	bool s3_instance_keys;                  /* when there are no other keys, ask the machine's metadata service */
	char *sym_store;         /* file:///… or s3://…: where uploaded symbol files are kept; empty: refused */
	uint64_t max_sym_upload; /* bytes of one, or of a ZIP of them */
	bool sym_store_files;    /* sym_store takes executables and debug files, too */
	enum config_downloads downloads, file_downloads; /* of symbol files; of executables and debug files */
	uint64_t download_parallel;
	char *symbfile_store; /* file:///… or s3://…; empty: uploads are refused */

	/* memory, in bytes; config_fit_memory has set all to what is in force */
	uint64_t memory;          /* that the process may have resident; 0: a part of what the machine has */
	uint64_t max_memory;      /* an older bound of the same; 0: none */
	uint64_t load_memory_max; /* that one module may take while it is loaded */

	/* caches */
	uint64_t cache_size;          /* bytes of maps kept in the process */
	struct config_list memcached; /* host:port, numeric addresses, or paths of unix sockets */
	int64_t memcached_connect_timeout, memcached_timeout;
	uint64_t memcached_item_max; /* the -I of the memcached servers */
	char *memcached_secret_file; /* keys the checksums of values; empty: memcached is trusted */
	enum config_codec codec;
	int64_t revalidate_after, root_max_age;
	int64_t finish_after; /* without loads, until maps that were asked for once are made whole */
	int64_t missing_ttl, corrupt_ttl, failure_ttl_min, failure_ttl_max;
	uint64_t failures_max; /* remembered, oldest out first */
	enum config_lookup lookup;

	/* limits */
	uint64_t max_body, max_body_inflated, max_reply, max_upload;
	uint64_t max_jobs, max_frames, max_stacks, max_modules;
	uint64_t upload_parallel;
	uint64_t cold_modules;  /* unknown modules a request may load */
	uint64_t cold_requests; /* requests that load at one time */
	uint64_t cold_queue;    /* requests that wait for such a place */
	int64_t cold_wait;      /* and for how long */
	uint64_t gzip_min_size; /* replies of at least so many bytes are compressed for clients that accept it */

	/* operation */
	char *keys_file;             /* API keys; empty: nobody has one */
	char *drain_file;            /* while it exists /__lbheartbeat__ fails; empty: there is none */
	enum config_sandbox seccomp; /* system calls that are refused */
	char *log_file;              /* empty: standard error */
	enum log_level log_level;
	bool log_health_checks; /* requests for /__lbheartbeat__, /__heartbeat__ and /__metrics__ */
};

/* Item i of a list whose items are "URL VALUE": the value if it is for what is below that URL, else NULL. */
const char *config_for_url(const struct config_list *list, unsigned i, const char *url);

/* The defaults. Fails only without memory. */
enum err config_init(struct config *c, struct error *e);
/* Reads a file of lines `key = value`, `#` comments. Errors name file and line; an unknown key is one. */
enum err config_read_file(struct config *c, const char *path, struct error *e);
/* One setting by name, as `--key value` gives it. */
enum err config_set(struct config *c, const char *key, const char *value, struct error *e);
/* The command line: first the file that --config names, then each `--key value` or `--key=value`, which replaces what
 * the file says (a list's first flag empties the list). *actions becomes the set of what else was asked for; the caller
 * does it. */
enum config_action {
	CONFIG_HELP = 1,
	CONFIG_VERSION = 2,
	CONFIG_CHECK = 4,
	CONFIG_PRINT_MARKDOWN = 8,
	CONFIG_PRINT_EXAMPLE = 16,
	CONFIG_JSON = 32,
};
enum err config_parse_args(struct config *c, int argc, char **argv, unsigned *actions, struct error *e);
/* Checks what no single key shows: failure_ttl_min <= failure_ttl_max, ... */
enum err config_check(const struct config *c, struct error *e);
/* Takes "1.2.3.4:80" or "[::1]:80" apart; false if it is neither. No host names: they would have to be resolved. */
enum { CONFIG_HOST_SIZE = 64 };
bool config_parse_address(char host[CONFIG_HOST_SIZE], uint16_t *port, const char *text);
/* A source URL as it may be shown: without user, password and query, but with its line in the file: "s3://symbols/v1
 * (line 7)". */
enum { CONFIG_SOURCE_SIZE = 140 };
const char *config_show_source(char out[CONFIG_SOURCE_SIZE], const struct config *c, unsigned source);
/* Whether a source has a user, a password or a query. */
bool config_source_is_secret(const struct config *c, unsigned source);
/* Sets what memory is left open: memory from what the machine has (bytes; 0: unknown), and the bounds of its parts from
 * that. Call it once, after the settings are read. */
void config_fit_memory(struct config *c, uint64_t machine);
/* Copies strings too; `to` need not be initialised. For SIGHUP: other threads read the settings in force, so a copy is
 * changed. After an error `to` is to be released, too. */
enum err config_copy(struct config *to, const struct config *from);
/* Leaves everything empty; may be called again, and after a failed config_init. */
void config_release(struct config *c);
/* Takes over from `fresh` the settings that SIGHUP may change; logs nothing. Returns the number of keys that differ but
 * need a restart, and prints their names, separated by blanks, into names. */
unsigned config_reload(struct config *running, struct config *fresh, char *names, size_t size);
/* The table as Markdown (docs), as an example file, as usage text. */
void config_print_markdown(FILE *out);
void config_print_example(FILE *out);
void config_print_usage(FILE *out);

#endif
