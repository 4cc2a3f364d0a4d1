/* SPDX-License-Identifier: Apache-2.0 */
/* The keys that sign requests to S3. They are looked for where Amazon's SDKs look, in the same order: the file that
 * the settings name, the environment, a web identity that the token service exchanges for keys, the container's
 * agent and, if the settings allow it, the machine's metadata service. The first that is present is used.
 *
 * Keys from a service expire. Five minutes before that, or after half of their life if that is later, one thread
 * asks for new ones. Until they arrive, all threads use the old ones as long as these are valid. */
#include <config.h>

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "objects/percent.h"
#include "objects/s3.h"

enum {
	ANSWER_MAX = 64 * 1024, /* bytes of a service's reply */
	TOKEN_MAX = 32 * 1024,  /* of a file with a token */
	ROLE_MAX = 256,         /* of the name of a machine's role */
	EARLY = 300,            /* seconds */
	UNTOLD = 3600,          /* how long keys count as valid if nothing says so; seconds */
	CONNECT_TIMEOUT = 2,    /* seconds */
	TOTAL_TIMEOUT = 5,      /* of one request; seconds */
	SESSION_TTL = 21600,    /* lifetime of a metadata service's token; seconds, as SDKs request it */
};
static const int64_t retry_pause = SECOND; /* after a service has given no keys */

#define METADATA "http://169.254.169.254"
#define CONTAINER "http://169.254.170.2"
#define ROLES "/latest/meta-data/iam/security-credentials/"

enum source { SOURCE_NONE, SOURCE_FILE, SOURCE_ENVIRONMENT, SOURCE_WEB_IDENTITY, SOURCE_CONTAINER, SOURCE_INSTANCE };

struct s3_credentials {
	enum source source;
	const struct config *config; /* not owned; of SOURCE_FILE */
	char *sts;                   /* URL of the token service */
	struct transfer_pool *pool;  /* for services; NULL: none is asked */
	struct place_clock clock;    /* of the service, which says when keys expire */
	pthread_mutex_t lock;        /* of what follows; no network is touched under it */
	pthread_cond_t changed;
	struct s3_keys keys;
	struct stat file;         /* as it was read */
	int64_t refresh, expires; /* when to ask for new keys, and when these expire; seconds since 1970 */
	bool refreshing;          /* somebody asks */
	int64_t next_try;         /* clock_now(); after a failure */
	struct error failure;     /* the most recent one */
};

/* ---- asking a service ---- */

static const char *variable(const char *name)
{
	const char *text = getenv(name);
	return text ? text : "";
}

/* What a service is asked, and what it says. Everything here may be secret. */
struct asking {
	struct s3_credentials *credentials;
	const char *what; /* the service, for errors, which never say what it said */
	struct buffer url, lines, form, token, answer;
	struct s3_keys keys; /* what it gives */
	int64_t expires;     /* when they do, in seconds since 1970 */
	struct error *e;
};

static enum err no_use(struct asking *a, const char *problem)
{
	return error_set(a->e, ERR_UNAVAILABLE, "S3 keys: %s: %s", a->what, problem);
}

/* Sends url, lines and form; the answer is NUL-terminated. */
static enum err request(struct asking *a, const char *method)
{
	struct transfer_reply reply;
	struct transfer_request q = {.method = method,
	        .url = (const char *)a->url.data,
	        .lines = (const char *)a->lines.data,
	        .content_type = "application/x-www-form-urlencoded",
	        .body = transfer_to_buffer,
	        .arg = &a->answer};
	if (a->url.failed || a->lines.failed || a->form.failed)
		return no_memory(a->e);
	if (strcmp(method, "GET") != 0) {
		q.data = a->form.data ? a->form.data : (const uint8_t *)"";
		q.len = a->form.len;
	}
	struct transfer *t = transfer_new(a->credentials->pool);
	if (!t)
		return no_memory(a->e);
	buffer_reset(&a->answer);
	bool good = transfer_run(t, &q, &reply) && reply.status == 200 && buffer_append(&a->answer, "", 1);
	transfer_free(t);
	if (good)
		return ERR_OK;
	if (!reply.status)
		return no_use(a, reply.problem);
	return error_set(a->e, ERR_UNAVAILABLE, "S3 keys: %s: HTTP status %d", a->what, reply.status);
}

static void wipe(struct buffer *b)
{
	if (b->data)
		explicit_bzero(b->data, b->len);
	buffer_release(b);
}

static void add_encoded(struct buffer *b, struct str text)
{
	if (!buffer_reserve(b, 3 * text.len))
		return;
	char *end = percent_encode((char *)b->data + b->len, text, false);
	*end = 0;
	b->len = (size_t)((uint8_t *)end - b->data);
}

/* The only line of a file, without trailing blanks. */
static enum err read_token(const char *path, struct buffer *token, struct error *e)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 || !buffer_reserve(token, TOKEN_MAX) ? -1 : read(fd, token->data, TOKEN_MAX);
	int error = errno;
	if (fd >= 0)
		close(fd);
	if (n < 0)
		return error_set(e, ERR_UNAVAILABLE, "S3 keys: %.100s: %s", path, strerror(error));
	token->len = (size_t)n;
	while (token->len && strchr(" \t\r\n", token->data[token->len - 1]))
		token->len--;
	if (!token->len || token->len == TOKEN_MAX || !buffer_append(token, "", 1) ||
	        !s3_key_is_valid((const char *)token->data))
		return error_set(e, ERR_UNAVAILABLE, "S3 keys: %.100s: no token", path);
	return ERR_OK;
}

/* ---- what a service gives ---- */

static int64_t now_of(const struct s3_credentials *c)
{
	return place_now(&c->clock) / SECOND;
}

static bool look_at_clock(void *credentials, const struct transfer_reply *reply, int64_t sent, int64_t now)
{
	struct s3_credentials *c = credentials;
	place_clock_hear(&c->clock, sent, now, reply->date * SECOND, date_unit, date_late);
	return false;
}

/* Seconds; an hour from now if it is malformed. */
static int64_t parse_end(const struct s3_credentials *c, struct str text)
{
	int64_t end = s3_parse_time(text);
	return end >= 0 ? end / SECOND : now_of(c) + UNTOLD;
}

static enum err check_keys(struct asking *a)
{
	const struct s3_keys *k = &a->keys;
	bool good = k->access && *k->access && s3_key_is_valid(k->access) && k->secret && *k->secret &&
	            s3_key_is_valid(k->secret) && (!k->token || s3_key_is_valid(k->token));
	return good ? ERR_OK : no_use(a, "no keys in its answer");
}

static char *json_text_of(const json_t *object, const char *key)
{
	const char *text = json_string_value(json_object_get(object, key));
	return text ? strdup(text) : NULL;
}

/* {"AccessKeyId", "SecretAccessKey", "Token", "Expiration"} */
static enum err read_json(struct asking *a)
{
	json_t *root = json_loads((const char *)a->answer.data, 0, NULL);
	a->keys = (struct s3_keys){
	        json_text_of(root, "AccessKeyId"), json_text_of(root, "SecretAccessKey"), json_text_of(root, "Token")};
	const char *end = json_string_value(json_object_get(root, "Expiration"));
	a->expires = parse_end(a->credentials, str_from(end ? end : ""));
	json_decref(root);
	return check_keys(a);
}

static enum err ask_instance(struct asking *a)
{
	const char *base = variable("AWS_EC2_METADATA_SERVICE_ENDPOINT");
	base = *base ? base : METADATA;
	int len = (int)strlen(base);
	len -= base[len - 1] == '/';
	a->what = "the metadata service";
	buffer_printf(&a->url, "%.*s/latest/api/token", len, base);
	buffer_printf(&a->lines, "X-aws-ec2-metadata-token-ttl-seconds: %d\n", SESSION_TTL);
	enum err err = request(a, "PUT");
	if (!err && !s3_key_is_valid((const char *)a->answer.data))
		err = no_use(a, "no token");
	if (err)
		return err;
	buffer_reset(&a->lines);
	buffer_printf(&a->lines, "X-aws-ec2-metadata-token: %s\n", (const char *)a->answer.data);
	buffer_reset(&a->url);
	buffer_printf(&a->url, "%.*s" ROLES, len, base);
	err = request(a, "GET");
	if (err)
		return err;
	/* the first role in the list */
	struct str role = {(const char *)a->answer.data, strcspn((const char *)a->answer.data, "\r\n")};
	if (!role.len || role.len > ROLE_MAX)
		return no_use(a, "the machine has no role");
	add_encoded(&a->url, role);
	err = request(a, "GET");
	return err ? err : read_json(a);
}

static enum err ask_container(struct asking *a)
{
	const char *path = variable("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI");
	const char *file = variable("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE");
	const char *token = variable("AWS_CONTAINER_AUTHORIZATION_TOKEN");
	a->what = "the container's agent";
	if (*file && read_token(file, &a->token, a->e))
		return a->e->code;
	if (*file)
		token = (const char *)a->token.data;
	if (strpbrk(token, "\r\n"))
		return no_use(a, "no usable token in the environment");
	buffer_printf(
	        &a->url, "%s%s", *path ? CONTAINER : "", *path ? path : variable("AWS_CONTAINER_CREDENTIALS_FULL_URI"));
	if (*token)
		buffer_printf(&a->lines, "Authorization: %s\n", token);
	enum err err = request(a, "GET");
	return err ? err : read_json(a);
}

/* Reads the token service's XML, where keys are in AssumeRoleWithWebIdentityResult/Credentials. */
static void on_sts_element(void *arg, unsigned depth, const char *name, struct str text)
{
	struct asking *a = arg;
	struct s3_keys *k = &a->keys;
	char **to = strcmp(name, "AccessKeyId") == 0       ? &k->access
	            : strcmp(name, "SecretAccessKey") == 0 ? &k->secret
	            : strcmp(name, "SessionToken") == 0    ? &k->token
	                                                   : NULL;
	if (depth == 4 && to && !*to)
		*to = str_dup(text);
	if (depth == 4 && strcmp(name, "Expiration") == 0)
		a->expires = parse_end(a->credentials, text);
}

static enum err ask_sts(struct asking *a)
{
	const char *session = variable("AWS_ROLE_SESSION_NAME");
	a->what = "the token service";
	/* read each time: whoever wrote the token replaces it before it expires */
	if (read_token(variable("AWS_WEB_IDENTITY_TOKEN_FILE"), &a->token, a->e))
		return a->e->code;
	buffer_printf(&a->url, "%s", a->credentials->sts);
	buffer_printf(&a->form, "Action=AssumeRoleWithWebIdentity&Version=2011-06-15&RoleArn=");
	add_encoded(&a->form, str_from(variable("AWS_ROLE_ARN")));
	buffer_printf(&a->form, "&RoleSessionName=");
	add_encoded(&a->form, str_from(*session ? session : "symbolicated"));
	buffer_printf(&a->form, "&WebIdentityToken=");
	add_encoded(&a->form, str_from((const char *)a->token.data));
	a->expires = parse_end(a->credentials, str_from(""));
	if (request(a, "POST"))
		return a->e->code;
	s3_xml_read(a->answer.data, a->answer.len - 1, on_sts_element, a);
	return check_keys(a);
}

/* ---- which source ---- */

static enum source find_source(const struct config *c, const struct s3_keys *k)
{
	if (c->s3_credentials_file && *c->s3_credentials_file)
		return SOURCE_FILE;
	if (k->access)
		return SOURCE_ENVIRONMENT;
	if (*variable("AWS_WEB_IDENTITY_TOKEN_FILE") && *variable("AWS_ROLE_ARN"))
		return SOURCE_WEB_IDENTITY;
	if (*variable("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI") || *variable("AWS_CONTAINER_CREDENTIALS_FULL_URI"))
		return SOURCE_CONTAINER;
	return c->s3_instance_keys ? SOURCE_INSTANCE : SOURCE_NONE;
}

static enum err make_services(struct s3_credentials *c, const char *region, struct error *e)
{
	const char *endpoint = variable("AWS_ENDPOINT_URL_STS");
	struct bucket_limits limits = {.connect_timeout = CONNECT_TIMEOUT * SECOND,
	        .stall_timeout = TOTAL_TIMEOUT * SECOND,
	        .total_timeout = TOTAL_TIMEOUT * SECOND,
	        .max_size = ANSWER_MAX};
	struct transfer_settings settings = {.dated = look_at_clock, .owner = c};
	c->sts = *endpoint ? strdup(endpoint) : text_printf("https://sts.%s.amazonaws.com/", region);
	c->pool = transfer_pool_new(&limits, &settings);
	return c->sts && c->pool ? ERR_OK : no_memory(e);
}

struct s3_credentials *s3_credentials_new(const struct config *config, const char *region, struct error *e)
{
	struct s3_credentials *c = calloc(1, sizeof *c);
	if (!c) {
		no_memory(e);
		return NULL;
	}
	pthread_mutex_init(&c->lock, NULL);
	pthread_cond_init(&c->changed, NULL);
	c->config = config;
	/* taken before reading, so that a change in between is noticed */
	if (config->s3_credentials_file && *config->s3_credentials_file)
		stat(config->s3_credentials_file, &c->file);
	enum err err = s3_keys_find(&c->keys, config, e);
	if (!err)
		c->source = find_source(config, &c->keys);
	if (!err && c->source >= SOURCE_WEB_IDENTITY)
		err = make_services(c, region, e);
	if (!err)
		return c;
	s3_credentials_free(c);
	return NULL;
}

void s3_credentials_free(struct s3_credentials *c)
{
	if (!c)
		return;
	s3_keys_release(&c->keys);
	transfer_pool_free(c->pool);
	free(c->sts);
	pthread_cond_destroy(&c->changed);
	pthread_mutex_destroy(&c->lock);
	free(c);
}

bool s3_credentials_any(const struct s3_credentials *c)
{
	return c->source != SOURCE_NONE;
}

/* ---- the keys in force; all under c->lock ---- */

static bool is_same_file(const struct stat *a, const struct stat *b)
{
	return a->st_dev == b->st_dev && a->st_ino == b->st_ino && a->st_size == b->st_size &&
	       a->st_mtim.tv_sec == b->st_mtim.tv_sec && a->st_mtim.tv_nsec == b->st_mtim.tv_nsec &&
	       a->st_ctim.tv_sec == b->st_ctim.tv_sec && a->st_ctim.tv_nsec == b->st_ctim.tv_nsec;
}

/* If a file cannot be read, or is half written, the keys stay as they were: the next request looks again. */
static void look_at_file(struct s3_credentials *c)
{
	struct stat now;
	struct s3_keys fresh;
	if (stat(c->config->s3_credentials_file, &now) != 0 || is_same_file(&now, &c->file) ||
	        s3_keys_find(&fresh, c->config, NULL))
		return;
	s3_keys_release(&c->keys);
	c->keys = fresh;
	c->file = now;
}

static enum err ask(struct asking *a)
{
	switch (a->credentials->source) {
	case SOURCE_WEB_IDENTITY:
		return ask_sts(a);
	case SOURCE_CONTAINER:
		return ask_container(a);
	default:
		return ask_instance(a);
	}
}

static enum err get_keys(struct asking *a)
{
	struct buffer *buffers[] = {&a->url, &a->lines, &a->form, &a->token, &a->answer};
	for (unsigned i = 0; i < sizeof buffers / sizeof buffers[0]; i++)
		buffer_init(buffers[i], 4 * TOKEN_MAX);
	enum err err = ask(a);
	for (unsigned i = 0; i < sizeof buffers / sizeof buffers[0]; i++)
		wipe(buffers[i]);
	if (!err && a->expires <= now_of(a->credentials))
		err = error_set(a->e, ERR_UNAVAILABLE, "S3 keys: the service gave keys that have already expired");
	if (err)
		s3_keys_release(&a->keys);
	return err;
}

/* Asks without holding the lock, then takes over the result. */
static void refresh(struct s3_credentials *c)
{
	struct error e;
	struct asking a = {.credentials = c, .e = &e};
	c->refreshing = true;
	pthread_mutex_unlock(&c->lock);
	enum err err = get_keys(&a);
	pthread_mutex_lock(&c->lock);
	c->refreshing = false;
	if (err) {
		c->failure = e;
		c->next_try = clock_now() + retry_pause;
	} else {
		int64_t now = now_of(c), half = now + (a.expires - now) / 2;
		s3_keys_release(&c->keys);
		c->keys = a.keys;
		c->expires = a.expires;
		c->refresh = half > a.expires - EARLY ? half : a.expires - EARLY;
	}
	pthread_cond_broadcast(&c->changed);
}

/* Makes sure that there are valid keys from a service. */
static enum err have_keys(struct s3_credentials *c, struct error *e)
{
	for (;;) {
		int64_t now = now_of(c);
		bool good = c->keys.access && now < c->expires, asks = clock_now() >= c->next_try;
		if ((good && now < c->refresh) || (good && (c->refreshing || !asks)))
			return ERR_OK;
		if (c->refreshing)
			pthread_cond_wait(&c->changed, &c->lock);
		else if (asks)
			refresh(c);
		else
			return error_set(e, c->failure.code, "%s", c->failure.text);
	}
}

static bool copy_text(char **to, const char *from)
{
	*to = from ? strdup(from) : NULL;
	return *to || !from;
}

static enum err copy_keys(struct s3_keys *to, const struct s3_keys *from, struct error *e)
{
	*to = (struct s3_keys){0};
	if (copy_text(&to->access, from->access) && copy_text(&to->secret, from->secret) &&
	        copy_text(&to->token, from->token))
		return ERR_OK;
	s3_keys_release(to);
	return no_memory(e);
}

enum err s3_credentials_get(struct s3_credentials *c, struct s3_keys *k, struct error *e)
{
	pthread_mutex_lock(&c->lock);
	if (c->source == SOURCE_FILE)
		look_at_file(c);
	enum err err = c->source >= SOURCE_WEB_IDENTITY ? have_keys(c, e) : ERR_OK;
	if (!err)
		err = copy_keys(k, &c->keys, e);
	pthread_mutex_unlock(&c->lock);
	return err;
}
