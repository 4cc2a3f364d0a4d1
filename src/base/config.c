/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "base/config_table.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum err config_init(struct config *c, struct error *e)
{
	memset(c, 0, sizeof *c);
	for (const struct config_row *row = config_rows; row->key; row++) {
		enum err err = config_set_row(c, row, row->fallback, e);
		if (err) {
			config_release(c);
			return err;
		}
	}
	return ERR_OK;
}

void config_release(struct config *c)
{
	for (const struct config_row *row = config_rows; row->key; row++) {
		char **text = config_field(c, row);
		if (row->type == TYPE_LIST)
			config_list_clear(config_field(c, row));
		if (row->type == TYPE_STRING) {
			free(*text);
			*text = NULL;
		}
	}
}

static enum err copy_row(struct config *to, const struct config *from, const struct config_row *row)
{
	void *copy = config_field(to, row);
	const void *field = config_const_field(from, row);
	struct config_list *list = copy;
	if (row->type == TYPE_STRING)
		return config_set_string(copy, row, *(char *const *)field, NULL);
	memcpy(copy, field, row->size);
	for (unsigned i = 0; row->type == TYPE_LIST && i < list->count; i++) {
		list->items[i] = strdup(list->items[i]);
		if (!list->items[i]) {
			list->count = i; /* the others are not its own */
			return ERR_NO_MEMORY;
		}
	}
	return ERR_OK;
}

enum err config_copy(struct config *to, const struct config *from)
{
	enum err err = ERR_OK;
	memset(to, 0, sizeof *to);
	for (const struct config_row *row = config_rows; row->key && !err; row++)
		err = copy_row(to, from, row);
	return err;
}

static bool lists_differ(const struct config_list *a, const struct config_list *b)
{
	if (a->count != b->count)
		return true;
	for (unsigned i = 0; i < a->count; i++)
		if (strcmp(a->items[i], b->items[i]) != 0)
			return true;
	return false;
}

static bool row_differs(const struct config *a, const struct config *b, const struct config_row *row)
{
	const void *x = config_const_field(a, row), *y = config_const_field(b, row);
	if (row->type == TYPE_LIST)
		return lists_differ(x, y);
	if (row->type == TYPE_STRING)
		return strcmp(*(char *const *)x, *(char *const *)y) != 0;
	return memcmp(x, y, row->size) != 0;
}

static void swap_row(struct config *a, struct config *b, const struct config_row *row)
{
	char kept[sizeof(struct config_list)];
	memcpy(kept, config_field(a, row), row->size);
	memcpy(config_field(a, row), config_field(b, row), row->size);
	memcpy(config_field(b, row), kept, row->size);
}

unsigned config_reload(struct config *running, struct config *fresh, char *names, size_t size)
{
	unsigned count = 0;
	size_t len = 0;
	if (size)
		names[0] = 0;
	for (const struct config_row *row = config_rows; row->key; row++) {
		if (!row_differs(running, fresh, row))
			continue;
		if (row->reload) {
			/* Swapped, so that each of the two still owns what it points to. */
			swap_row(running, fresh, row);
			continue;
		}
		if (len < size)
			len += (size_t)snprintf(names + len, size - len, "%s%s", count ? " " : "", row->key);
		count++;
	}
	return count;
}

enum err config_set(struct config *c, const char *key, const char *value, struct error *e)
{
	const struct config_row *row = config_find_row(key);
	return row ? config_set_row(c, row, value, e) : config_unknown_key(key, e);
}

bool config_parse_address(char host[CONFIG_HOST_SIZE], uint16_t *port, const char *text)
{
	unsigned char ignored[sizeof(struct in6_addr)];
	const char *colon = strrchr(text, ':'), *digits = colon ? colon + 1 : "";
	size_t len = colon ? (size_t)(colon - text) : 0;
	uint64_t number;
	if (!len || len >= CONFIG_HOST_SIZE || !config_parse_digits(&digits, 10, &number) || *digits || !number ||
	        number > UINT16_MAX)
		return false;
	bool six = text[0] == '[' && text[len - 1] == ']';
	snprintf(host, CONFIG_HOST_SIZE, "%.*s", (int)(len - 2 * six), text + six);
	*port = (uint16_t)number;
	return inet_pton(six ? AF_INET6 : AF_INET, host, ignored) == 1;
}

const char *config_for_url(const struct config_list *list, unsigned i, const char *url)
{
	const char *item = list->items[i];
	size_t len = strcspn(item, " \t");
	const char *value = item + len + strspn(item + len, " \t");
	if (!len || strncasecmp(item, url, len) != 0)
		return NULL;
	/* https://a.org is not https://a.org.example */
	return item[len - 1] == '/' || url[len] == '/' || !url[len] ? value : NULL;
}

bool config_source_is_secret(const struct config *c, unsigned source)
{
	return strpbrk(c->sources.items[source], "@?");
}

static uint64_t least(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

/* Hides everything that may be secret, and rather too much than too little: a password may contain any character. */
const char *config_show_source(char out[CONFIG_SOURCE_SIZE], const struct config *c, unsigned source)
{
	const char *url = c->sources.items[source], *scheme_end = strstr(url, "://");
	const char *start = scheme_end ? scheme_end + 3 : url, *user_end = strrchr(start, '@');
	const char *host = user_end ? user_end + 1 : start, *query = strpbrk(host, "?#");
	size_t len = query ? (size_t)(query - host) : strlen(host);
	char line[32] = "";
	if (c->sources.lines[source])
		snprintf(line, sizeof line, " (line %u)", c->sources.lines[source]);
	snprintf(out, CONFIG_SOURCE_SIZE, "%.*s%s%.*s%s%s", (int)least(start - url, 20), url, user_end ? "***@" : "",
	        (int)least(len, 80), host, query || len > 80 ? "***" : "", line);
	return out;
}

/* "URL VALUE", of a source over HTTP. */
static enum err check_for_urls(const struct config_list *list, const char *key, struct error *e)
{
	for (unsigned i = 0; i < list->count; i++) {
		const char *item = list->items[i], *value = item + strcspn(item, " \t");
		bool http = strncasecmp(item, "https://", 8) == 0 || strncasecmp(item, "http://", 7) == 0;
		if (!http || !value[strspn(value, " \t")])
			return error_set(e, ERR_CONFIG,
			        "%s: not of the form URL VALUE, with the http:// or https:// URL of a source", key);
	}
	return ERR_OK;
}

static enum err check_lists(const struct config *c, struct error *e)
{
	if (check_for_urls(&c->source_ca_files, "source_ca_file", e) ||
	        check_for_urls(&c->source_headers, "source_header", e))
		return e->code;
	if (!c->sources.count && !*c->sym_store)
		return error_set(e, ERR_CONFIG, "no source is set: there are no symbols to look up");
	char host[CONFIG_HOST_SIZE];
	uint16_t port;
	for (unsigned i = 0; i < c->memcached.count; i++)
		if (c->memcached.items[i][0] != '/' && !config_parse_address(host, &port, c->memcached.items[i]))
			return error_set(e, ERR_CONFIG,
			        "memcached: \"%.100s\" is neither a path nor a numeric address:port",
			        c->memcached.items[i]);
	return ERR_OK;
}

/* With less, hardly a request could be answered. */
enum { MEMORY_MIN = 64 << 20 };

void config_fit_memory(struct config *c, uint64_t machine)
{
	uint64_t most = c->max_memory ? c->max_memory : UINT64_MAX;
	if (!c->memory)
		c->memory = !machine ? UINT64_MAX : machine / 10 * 7 > MEMORY_MIN ? machine / 10 * 7 : MEMORY_MIN;
	c->memory = least(least(c->memory, most), INT64_MAX);
	c->max_memory = c->memory;
	c->cache_size = least(c->cache_size, c->memory / 4 * 3);
	c->load_memory_max = least(c->load_memory_max, c->memory / 4 * 3);
	c->executable_memory = least(c->executable_memory, c->memory / 4 * 3);
}

enum err config_check(const struct config *c, struct error *e)
{
	enum err err = check_lists(c, e);
	if (err)
		return err;
	if (c->failure_ttl_min > c->failure_ttl_max)
		return error_set(e, ERR_CONFIG, "failure_ttl_min is above failure_ttl_max");
	if (c->bucket_parallel_request > c->bucket_parallel)
		return error_set(e, ERR_CONFIG, "bucket_parallel_request is above bucket_parallel");
	if (c->max_body > c->max_body_inflated)
		return error_set(e, ERR_CONFIG, "max_body is above max_body_inflated");
	if ((c->memory && c->memory < MEMORY_MIN) || (c->max_memory && c->max_memory < MEMORY_MIN))
		return error_set(e, ERR_CONFIG, "memory is less than 64M");
	return ERR_OK;
}
