/* SPDX-License-Identifier: Apache-2.0 */
/* S3 without a server: the URLs of places, keys from files and the environment, XML. Against a real server:
 * tests/wire/test_s3.py. */
#include <config.h>

#include "objects/percent.h"
#include "objects/s3.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <malloc.h>

#include <cmocka.h>
#include <unistd.h>

static const char *const variables[] = {"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_REGION",
        "AWS_DEFAULT_REGION", "AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3"};

static int clear_environment(void **state)
{
	(void)state;
	for (unsigned i = 0; i < sizeof variables / sizeof variables[0]; i++)
		unsetenv(variables[i]);
	return 0;
}

static void place_is(const char *url, const struct config *c, const char *name, const char *bucket, const char *base,
        const char *prefix)
{
	struct error e = {0};
	struct s3_place *p = s3_place_new(url, "source", c, &e);
	if (!p)
		fail_msg("%s: %s", url, e.text);
	assert_string_equal(p->place.name, name);
	assert_string_equal(p->bucket, bucket);
	assert_string_equal(p->base, base);
	assert_string_equal(p->prefix, prefix);
	s3_place_free(p);
}

static void urls_by_path(void **state)
{
	(void)state;
	struct config c = {.s3_endpoint = (char[]){"https://host.example:9000/"}};
	place_is("s3://bucket", &c, "s3://bucket/", "https://host.example:9000/bucket",
	        "https://host.example:9000/bucket/", "");
	place_is("S3://bucket/", &c, "s3://bucket/", "https://host.example:9000/bucket",
	        "https://host.example:9000/bucket/", "");
	place_is("s3://my.bucket/a%20b/c+~%25\xc3\xa9/", &c, "s3://my.bucket/a b/c+~%\xc3\xa9/",
	        "https://host.example:9000/my.bucket", "https://host.example:9000/my.bucket/a%20b/c%2B~%25%C3%A9/",
	        "a b/c+~%\xc3\xa9/");
	struct config six = {.s3_endpoint = (char[]){"HTTP://[::1]:80"}};
	place_is("s3://abc/p", &six, "s3://abc/p/", "HTTP://[::1]:80/abc", "HTTP://[::1]:80/abc/p/", "p/");
}

static void urls_by_host(void **state)
{
	(void)state;
	struct config c = {.s3_endpoint = (char[]){"http://host.example:9000"}, .s3_addressing = S3_VIRTUAL};
	place_is("s3://bucket/p", &c, "s3://bucket/p/", "http://bucket.host.example:9000/",
	        "http://bucket.host.example:9000/p/", "p/");
}

static void endpoint_and_region(void **state)
{
	(void)state;
	struct config c = {0};
	place_is("s3://abc", &c, "s3://abc/", "https://s3.us-east-1.amazonaws.com/abc",
	        "https://s3.us-east-1.amazonaws.com/abc/", "");
	setenv("AWS_DEFAULT_REGION", "eu-north-1", 1);
	setenv("AWS_REGION", "eu-west-3", 1);
	place_is("s3://abc", &c, "s3://abc/", "https://s3.eu-west-3.amazonaws.com/abc",
	        "https://s3.eu-west-3.amazonaws.com/abc/", "");
	c.s3_region = (char[]){"us-west-2"};
	place_is("s3://abc", &c, "s3://abc/", "https://s3.us-west-2.amazonaws.com/abc",
	        "https://s3.us-west-2.amazonaws.com/abc/", "");
	setenv("AWS_ENDPOINT_URL", "http://a", 1);
	place_is("s3://abc", &c, "s3://abc/", "http://a/abc", "http://a/abc/", "");
	setenv("AWS_ENDPOINT_URL_S3", "http://b", 1);
	place_is("s3://abc", &c, "s3://abc/", "http://b/abc", "http://b/abc/", "");
	c.s3_endpoint = (char[]){"http://c"};
	place_is("s3://abc", &c, "s3://abc/", "http://c/abc", "http://c/abc/", "");
}

/* Buckets have 3 to 63 letters, regions up to 64. */
static void longest_names(void **state)
{
	(void)state;
	static const char *const names[] = {"AWS_REGION", "AWS_DEFAULT_REGION"};
	struct config c = {.s3_endpoint = (char[]){"http://a"}};
	char name[66], url[80];
	struct error e;
	for (unsigned i = 0; i < 2; i++) {
		for (size_t len = 64; len < 66; len++) {
			memset(name, 'x', len);
			name[len] = 0;
			setenv(names[i], name, 1);
			struct s3_place *p = s3_place_new("s3://abc", "source", &c, &e);
			assert_int_equal(p != NULL, len == 64);
			if (p)
				assert_string_equal(p->region, name);
			s3_place_free(p);
		}
		unsetenv(names[i]);
	}
	for (size_t len = 62; len < 65; len++) {
		snprintf(url, sizeof url, "s3://%.*s", (int)len, name);
		struct s3_place *p = s3_place_new(url, "source", &c, &e);
		assert_int_equal(p != NULL, len < 64);
		s3_place_free(p);
	}
}

static void bad_places(void **state)
{
	(void)state;
	static const char *const bad[] = {"s3://", "s3://ab", "s3:///abc", "s3://a b c/", "s3://abc/%", "s3://abc/%00",
	        "s3://abc//d", "s3://abc/d?e", "s3://abc/d#e", "s3://user:pass@abc/", "s3://abc:80/"};
	static const char *const endpoints[] = {"ftp://a", "http://", "https:///", "http://a/b", "http://u:hunter2@a",
	        "http://a?b", "http://a b", "a:80"};
	struct config c = {0};
	struct error e;
	for (unsigned i = 0; i < sizeof bad / sizeof bad[0]; i++) {
		e = (struct error){0};
		if (s3_place_new(bad[i], "source", &c, &e))
			fail_msg("%s is taken", bad[i]);
		assert_int_equal(e.code, ERR_CONFIG);
		assert_memory_equal(e.text, "source: ", 8);
	}
	for (unsigned i = 0; i < sizeof endpoints / sizeof endpoints[0]; i++) {
		char copy[100];
		c.s3_endpoint = strcpy(copy, endpoints[i]);
		if (s3_place_new("s3://abc", "source", &c, &e))
			fail_msg("%s is taken", endpoints[i]);
		assert_int_equal(e.code, ERR_CONFIG);
		assert_null(strstr(e.text, "hunter2"));
	}
	c.s3_endpoint = NULL;
	setenv("AWS_REGION", "a.example/", 1);
	assert_null(s3_place_new("s3://abc", "source", &c, &e));
	assert_int_equal(e.code, ERR_CONFIG);
}

/* keys */

static void same_text(const char *a, const char *b)
{
	if (!a || !b)
		assert_true(a == b);
	else
		assert_string_equal(a, b);
}

static void keys_are(const struct config *c, const char *access, const char *secret, const char *token)
{
	struct s3_keys k;
	struct error e = {0};
	if (s3_keys_find(&k, c, &e))
		fail_msg("%s", e.text);
	same_text(k.access, access);
	same_text(k.secret, secret);
	same_text(k.token, token);
	s3_keys_release(&k);
	s3_keys_release(&k);
}

/* Returns the text of the error, which must not repeat what is secret. */
static const char *keys_fail(const struct config *c)
{
	static struct error e;
	struct s3_keys k;
	e = (struct error){0};
	assert_int_equal(s3_keys_find(&k, c, &e), ERR_CONFIG);
	assert_null(strstr(e.text, "hunter2"));
	assert_null(k.access);
	assert_null(k.secret);
	return e.text;
}

static void keys_of_environment(void **state)
{
	(void)state;
	struct config c = {0};
	keys_are(&c, NULL, NULL, NULL);
	setenv("AWS_ACCESS_KEY_ID", "AK", 1);
	assert_non_null(strstr(keys_fail(&c), "AWS_SECRET_ACCESS_KEY"));
	setenv("AWS_SECRET_ACCESS_KEY", "hunter2+/=", 1);
	keys_are(&c, "AK", "hunter2+/=", NULL);
	setenv("AWS_SESSION_TOKEN", "token", 1);
	keys_are(&c, "AK", "hunter2+/=", "token");
	setenv("AWS_SESSION_TOKEN", "", 1);
	keys_are(&c, "AK", "hunter2+/=", NULL);
	setenv("AWS_SECRET_ACCESS_KEY", "hunter2\r\nX: y", 1);
	keys_fail(&c);
	setenv("AWS_SECRET_ACCESS_KEY", "", 1);
	keys_fail(&c);
	setenv("AWS_ACCESS_KEY_ID", "", 1);
	keys_are(&c, NULL, NULL, NULL);
}

static void write_file(const char *path, const char *text)
{
	FILE *out = fopen(path, "w");
	assert_non_null(out);
	fputs(text, out);
	fclose(out);
}

static void keys_of_file(void **state)
{
	(void)state;
	char path[] = "/tmp/test-s3-XXXXXX";
	int fd = mkstemp(path);
	assert_true(fd >= 0);
	close(fd);
	struct config c = {.s3_credentials_file = path};
	setenv("AWS_ACCESS_KEY_ID", "environment", 1);
	setenv("AWS_SECRET_ACCESS_KEY", "environment", 1);
	write_file(path, "# comment = x\n; another\n\n[other]\r\naws_access_key_id=O\r\naws_secret_access_key=P\r\n"
	                 "[ default ]\n  aws_access_key_id = AK \nregion = x\naws_secret_access_key\t=\thunter2=+/\n"
	                 "[third]\naws_access_key_id = T\naws_secret_access_key = U\naws_session_token = V==");
	keys_are(&c, "AK", "hunter2=+/", NULL);
	c.s3_profile = (char[]){"other"};
	keys_are(&c, "O", "P", NULL);
	c.s3_profile = (char[]){"third"};
	keys_are(&c, "T", "U", "V==");
	c.s3_profile = (char[]){"fourth"};
	assert_non_null(strstr(keys_fail(&c), "fourth"));
	c.s3_profile = NULL;
	write_file(path, "[default]\naws_access_key_id = AK\naws_secret_access_key hunter2\n");
	assert_non_null(strstr(keys_fail(&c), "line 3"));
	write_file(path, "[default]\naws_access_key_id = AK\naws_secret_access_key = hunter2 hunter2\n");
	assert_non_null(strstr(keys_fail(&c), "line 3"));
	write_file(path, "[default\naws_access_key_id = AK\naws_secret_access_key = hunter2\n");
	assert_non_null(strstr(keys_fail(&c), "line 1"));
	write_file(path, "[default]\naws_secret_access_key = hunter2\n");
	assert_non_null(strstr(keys_fail(&c), "aws_access_key_id"));
	c.s3_credentials_file = (char[]){"/"};
	assert_string_equal(keys_fail(&c), "s3_credentials_file: /: cannot read line 1");
	c.s3_credentials_file = path;
	write_file(path, "");
	keys_fail(&c);
	unlink(path);
	assert_non_null(strstr(keys_fail(&c), "No such file"));
}

static unsigned reads; /* of files */
FILE *__real_fopen(const char *path, const char *mode);
FILE *__wrap_fopen(const char *path, const char *mode);
FILE *__wrap_fopen(const char *path, const char *mode)
{
	reads += *mode == 'r';
	return __real_fopen(path, mode);
}

/* Requests ask for the keys each time. */
static void a_file_is_read_once_until_it_changes(void **state)
{
	(void)state;
	char path[] = "/tmp/test-s3-XXXXXX";
	int fd = mkstemp(path);
	assert_true(fd >= 0);
	close(fd);
	struct config c = {.s3_credentials_file = path};
	struct s3_keys k;
	struct error e;
	write_file(path, "[default]\naws_access_key_id = AK\naws_secret_access_key = SK\n");
	reads = 0;
	struct s3_credentials *credentials = s3_credentials_new(&c, "r", &e);
	assert_non_null(credentials);
	for (unsigned i = 0; i < 4; i++) {
		if (i == 2)
			write_file(path, "[default]\naws_access_key_id = another\naws_secret_access_key = SK\n");
		assert_int_equal(s3_credentials_get(credentials, &k, &e), ERR_OK);
		assert_string_equal(k.access, i < 2 ? "AK" : "another");
		assert_int_equal(reads, i < 2 ? 1 : 2);
		s3_keys_release(&k);
	}
	s3_credentials_free(credentials);
	unlink(path);
}

static void a_long_host_is_signed(void **state)
{
	(void)state;
	char endpoint[2000] = "http://";
	struct config c = {.s3_endpoint = endpoint};
	struct error e;
	setenv("AWS_ACCESS_KEY_ID", "AK", 1);
	setenv("AWS_SECRET_ACCESS_KEY", "SK", 1);
	memset(endpoint + strlen(endpoint), 'x', sizeof endpoint - strlen(endpoint) - 1);
	struct s3_place *p = s3_place_new("s3://abc", "source", &c, &e);
	assert_non_null(p);
	char *presigned = s3_presign(p, p->base, 60, NULL);
	assert_non_null(presigned);
	assert_memory_equal(presigned, endpoint, strlen(endpoint));
	free(presigned);
	s3_place_free(p);
}

/* Clients leave the port away that belongs to the scheme. */
static void usual_ports_are_not_signed(void **state)
{
	(void)state;
	static char same[][2][32] = {
	        {"http://a.example", "http://a.example:80"}, {"https://a.example", "https://a.example:443"}};
	struct error e;
	setenv("AWS_ACCESS_KEY_ID", "AK", 1);
	setenv("AWS_SECRET_ACCESS_KEY", "SK", 1);
	for (unsigned i = 0; i < 2; i++) {
		struct s3_place *places[2];
		const char *query[2];
		char *urls[2] = {NULL, NULL};
		for (unsigned k = 0; k < 2; k++) {
			struct config c = {.s3_endpoint = same[i][k]};
			places[k] = s3_place_new("s3://abc", "source", &c, &e);
			assert_non_null(places[k]);
		}
		do /* until both are of one second */
			for (unsigned k = 0; k < 2; k++) {
				free(urls[k]);
				urls[k] = s3_presign(places[k], places[k]->base, 60, NULL);
				query[k] = strchr(urls[k], '?');
			}
		while (strncmp(query[0], query[1], strlen(query[0]) - 64) != 0);
		assert_string_equal(query[0], query[1]);
		for (unsigned k = 0; k < 2; k++) {
			free(urls[k]);
			s3_place_free(places[k]);
		}
	}
}

static void presigned_urls_have_the_session_token(void **state)
{
	(void)state;
	struct config c = {.s3_endpoint = (char[]){"http://a"}};
	struct error e;
	setenv("AWS_ACCESS_KEY_ID", "AK", 1);
	setenv("AWS_SECRET_ACCESS_KEY", "SK", 1);
	setenv("AWS_SESSION_TOKEN", "to/ken=", 1);
	struct s3_place *p = s3_place_new("s3://abc", "source", &c, &e);
	assert_non_null(p);
	char *url = s3_presign(p, "http://a/b", 60, NULL);
	assert_non_null(strstr(url, "&X-Amz-Security-Token=to%2Fken%3D&X-Amz-SignedHeaders=host&"));
	free(url);
	s3_place_free(p);
}

static void signed_headers(const char *expected, struct transfer_request q)
{
	struct config c = {.s3_endpoint = (char[]){"http://a"}};
	struct error e;
	struct buffer lines;
	struct s3_place *p = s3_place_new("s3://abc", "source", &c, &e);
	assert_non_null(p);
	buffer_init(&lines, 10000);
	assert_true(s3_place_sign(p, &q, &lines, &e) && buffer_append(&lines, "", 1));
	assert_non_null(strstr((const char *)lines.data, expected));
	buffer_release(&lines);
	s3_place_free(p);
}

/* S3 wants the type of what is sent among them, and each x-amz-. */
static void what_is_sent_is_signed(void **state)
{
	(void)state;
	const uint8_t data[1] = "x";
	setenv("AWS_ACCESS_KEY_ID", "AK", 1);
	setenv("AWS_SECRET_ACCESS_KEY", "SK", 1);
	signed_headers("SignedHeaders=host;x-amz-content-sha256;x-amz-date,",
	        (struct transfer_request){.method = "GET", .url = "http://a/abc/d"});
	signed_headers("SignedHeaders=content-type;host;x-amz-content-sha256;x-amz-date,",
	        (struct transfer_request){.method = "PUT", .url = "http://a/abc/d", .data = data, .len = 1});
	signed_headers("SignedHeaders=host;x-amz-content-sha256;x-amz-copy-source;x-amz-date,",
	        (struct transfer_request){.method = "PUT", .url = "http://a/abc/d", .copy_source = "/abc/e"});
	setenv("AWS_SESSION_TOKEN", "token", 1);
	signed_headers("SignedHeaders=content-type;host;x-amz-content-sha256;x-amz-date;x-amz-security-token,",
	        (struct transfer_request){.method = "PUT", .url = "http://a/abc/d", .data = data, .len = 1});
}

static void escapes_that_are_cut_off(void **state)
{
	(void)state;
	char out[10];
	for (size_t len = 0; len <= 5; len++)
		assert_int_equal(percent_decode(out, (struct str){"ab%41", len}), len < 3 || len == 5);
	assert_string_equal(out, "abA");
}

/* XML */

static void join(void *arg, unsigned depth, const char *name, struct str text)
{
	char *out = arg;
	sprintf(out + strlen(out), "%u%s=%.*s;", depth, name, STR_FMT(text));
}

static bool read_text(const char *xml, char *out)
{
	out[0] = 0;
	return s3_xml_read(xml, strlen(xml), join, out);
}

static void xml(void **state)
{
	(void)state;
	char out[1000];
	assert_true(read_text("<?xml version=\"1.0\"?><A xmlns=\"x\"><B>a&amp;b</B><C/>\n<D><E>1</E></D></A>", out));
	assert_string_equal(out, "2B=a&b;2C=;3E=1;2D=;1A=;");
	assert_false(read_text("<A><B>a</B><C>", out));
	assert_string_equal(out, "2B=a;");
	assert_false(read_text("", out));
	assert_false(read_text("no XML", out));
	assert_false(read_text("<!DOCTYPE A [<!ENTITY a \"aaaa\">]><A>&a;</A>", out));
	assert_string_equal(out, "");
}

/* Elements in elements, and the text of one. */
static void largest_xml(void **state)
{
	(void)state;
	enum { DEEP = 64, LONG = 16384 };
	static char text[LONG + 20], out[LONG + 20];
	for (unsigned depth = DEEP; depth < DEEP + 2; depth++) {
		*text = 0;
		for (unsigned i = 0; i < 2 * depth; i++)
			strcat(text, i < depth ? "<a>" : "</a>");
		assert_int_equal(read_text(text, out), depth == DEEP);
	}
	for (unsigned len = LONG; len < LONG + 2; len++) {
		memset(text, 'x', 3 + len);
		memcpy(text, "<a>", 3);
		strcpy(text + 3 + len, "</a>");
		assert_int_equal(read_text(text, out), len == LONG);
	}
}

static void xml_is_bounded(void **state)
{
	(void)state;
	enum { DEEP = 100000 };
	static char text[4 * DEEP + 1], out[100];
	for (unsigned i = 0; i < DEEP; i++)
		memcpy(text + 3 * i, "<a>", 3);
	assert_false(read_text(text, out));
	memset(text, 'x', sizeof text - 1);
	memcpy(text, "<a>", 3);
	memcpy(text + sizeof text - 5, "</a>", 4);
	assert_false(read_text(text, out));
	assert_string_equal(out, "");
}

/* Whether it is read or refused. A sanitizer's malloc counts nothing here. */
static void xml_keeps_no_memory(void **state)
{
	(void)state;
	static const char *const texts[] = {"<A><B>b</B></A>", "<A><B>b</B>", "<!DOCTYPE A>", ""};
	char out[100];
	size_t held = 0;
	for (unsigned round = 0; round < 100; round++) {
		for (unsigned i = 0; i < sizeof texts / sizeof *texts; i++)
			read_text(texts[i], out);
		assert_false(s3_xml_read("<a/>", (1ull << 32) + 4, join, out)); /* expat counts in 32 bits */
		if (round == 0)
			held = mallinfo2().uordblks;
	}
	assert_int_equal(mallinfo2().uordblks, held);
}

static void error_codes(void **state)
{
	(void)state;
	static const char *const cases[][2] = {
	        {"<Error><Code>NoSuchKey</Code><Message>x</Message></Error>", "NoSuchKey"},
	        {"<Error><Code>NoSuchKey</Code><Mess", "NoSuchKey"},
	        {"<Error><Code>azAZ09</Code></Error>", "azAZ09"},
	        {"<Error><Code>No\nSuch</Code></Error>", ""},
	        {"<Error><Code>a/</Code></Error>", ""},
	        {"<Error><Code>a:</Code></Error>", ""},
	        {"<Error><Code>a@</Code></Error>", ""},
	        {"<Error><Code>a[</Code></Error>", ""},
	        {"<Error><Code>a`</Code></Error>", ""},
	        {"<Error><Code>a{</Code></Error>", ""},
	        {"<Error><a><Code>NoSuchKey</Code></a></Error>", ""},
	        {"<html>404</html>", ""},
	        {"", ""},
	};
	char code[S3_CODE_SIZE];
	for (unsigned i = 0; i < sizeof cases / sizeof cases[0]; i++) {
		s3_error_code(code, cases[i][0], strlen(cases[i][0]));
		assert_string_equal(code, cases[i][1]);
	}
	for (int len = S3_CODE_SIZE - 1; len <= S3_CODE_SIZE; len++) {
		char error[S3_CODE_SIZE + 50], name[S3_CODE_SIZE + 1];
		memset(name, 'x', sizeof name);
		snprintf(error, sizeof error, "<Error><Code>%.*s</Code></Error>", len, name);
		s3_error_code(code, error, strlen(error));
		assert_int_equal(strlen(code), len < S3_CODE_SIZE ? len : 0);
	}
}

static enum bucket_outcome judged(int status, const char *code, bool has_keys)
{
	struct transfer_reply reply = {.status = status, .whole = true};
	struct bucket_result result = {0};
	reply.error_len = (size_t)sprintf(reply.error_body, "<Error><Code>%s</Code></Error>", code);
	enum bucket_outcome outcome = s3_judge_status(&reply, has_keys, &result);
	assert_int_equal(outcome, result.outcome);
	char text[100];
	snprintf(text, sizeof text, "HTTP status %d%s%s", status, *code ? ", " : "", code);
	if (status >= 300)
		assert_string_equal(result.text, text);
	return outcome;
}

static void statuses(void **state)
{
	(void)state;
	assert_int_equal(judged(404, "NoSuchKey", true), BUCKET_MISSING);
	assert_int_equal(judged(404, "", true), BUCKET_MISSING);
	assert_int_equal(judged(404, "NoSuchBucket", true), BUCKET_FAILED);
	assert_int_equal(judged(404, "InvalidAccessKeyId", true), BUCKET_FAILED);
	assert_int_equal(judged(403, "AccessDenied", true), BUCKET_FAILED);
	assert_int_equal(judged(403, "AccessDenied", false), BUCKET_MISSING);
	assert_int_equal(judged(400, "ExpiredToken", true), BUCKET_FAILED);
	assert_int_equal(judged(400, "AuthorizationHeaderMalformed", true), BUCKET_FAILED);
	assert_int_equal(judged(400, "KeyTooLongError", true), BUCKET_MISSING);
	assert_int_equal(judged(410, "", true), BUCKET_MISSING);
	assert_int_equal(judged(414, "", true), BUCKET_MISSING);
	assert_int_equal(judged(451, "", true), BUCKET_MISSING);
	assert_int_equal(judged(300, "", true), BUCKET_FAILED);
	assert_int_equal(judged(301, "PermanentRedirect", true), BUCKET_FAILED);
	assert_int_equal(judged(307, "TemporaryRedirect", false), BUCKET_FAILED);
	assert_int_equal(judged(503, "SlowDown", true), BUCKET_FAILED);
	assert_int_equal(judged(204, "", true), BUCKET_FAILED);
}

/* Nanoseconds since 1970 reach from there to 2262. */
static void times_that_do_not_fit(void **state)
{
	(void)state;
	assert_true(s3_parse_time(str_from("1970-01-01T00:00:01.5Z")) == 1500000000);
	assert_true(s3_parse_time(str_from("2262-04-11T00:00:00Z")) > 0);
	assert_true(s3_parse_time((struct str){"1970-01-01T00:00:01Z\0", 21}) == -1);
	assert_true(s3_parse_time(str_from("1013-01-01T00:00:00Z")) == -1);
	assert_true(s3_parse_time(str_from("1969-12-31T23:59:59Z")) == -1);
	assert_true(s3_parse_time(str_from("2263-01-01T00:00:00Z")) == -1);
	assert_true(s3_parse_time(str_from("9999-01-01T00:00:00Z")) == -1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	        cmocka_unit_test_setup(urls_by_path, clear_environment),
	        cmocka_unit_test_setup(urls_by_host, clear_environment),
	        cmocka_unit_test_setup(endpoint_and_region, clear_environment),
	        cmocka_unit_test_setup(longest_names, clear_environment),
	        cmocka_unit_test_setup(bad_places, clear_environment),
	        cmocka_unit_test_setup(keys_of_environment, clear_environment),
	        cmocka_unit_test_setup(keys_of_file, clear_environment),
	        cmocka_unit_test_setup(a_file_is_read_once_until_it_changes, clear_environment),
	        cmocka_unit_test_setup(a_long_host_is_signed, clear_environment),
	        cmocka_unit_test_setup(usual_ports_are_not_signed, clear_environment),
	        cmocka_unit_test_setup(presigned_urls_have_the_session_token, clear_environment),
	        cmocka_unit_test_setup(what_is_sent_is_signed, clear_environment),
	        cmocka_unit_test(times_that_do_not_fit),
	        cmocka_unit_test(escapes_that_are_cut_off),
	        cmocka_unit_test(xml),
	        cmocka_unit_test(largest_xml),
	        cmocka_unit_test(xml_is_bounded),
	        cmocka_unit_test(xml_keeps_no_memory),
	        cmocka_unit_test(error_codes),
	        cmocka_unit_test(statuses),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
