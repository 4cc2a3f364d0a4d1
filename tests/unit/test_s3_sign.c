/* SPDX-License-Identifier: Apache-2.0 */
/* Signatures of requests to S3 against what Amazon has published: the examples of the S3 documentation ("Signature
 * Calculations for the Authorization Header"), and those of its test suite (aws-sig-v4-test-suite) that S3 can get,
 * with queries sorted and headers trimmed; the others normalise paths, which S3 does not. */
#include <config.h>

#include "objects/s3_sign.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <malloc.h>

#include "base/hash.h"

#define TOKEN                                                                                                          \
	"AQoDYXdzEPT//////////"                                                                                        \
	"wEXAMPLEtc764bNrC9SAPBSM22wDOk4x4HIZ8j4FZTwdQWLWsKWHGBuFqwAeMicRXmxfpSPfIeoIYRqTflfKD8YUuwthAx7mSEI/qkPpKPi/" \
	"kMcGdQrmGdeehM4IC1NtBmUpp2wUE8phUZampKsburEDy0KPkyQDYwT7WZ0wq5VSXDvp75YU9HFvlRd8Tx6q6fE8YQcHNVXAkiY9q6d+"     \
	"xo0rKwT38xVqr7ZD0u0iPPkUL64lIZbqBAz+scqKmlzm8FDrypNC9Yjc8fPOLn9FX9KSYvKTr4rvx3iSIlTJabIQwj2ICCR/oLxBA=="

struct vector {
	const char *name, *method, *path, *query;
	struct s3_header headers[2]; /* beside host and x-amz-date */
	const char *body, *signature;
};

static int by_name(const void *a, const void *b)
{
	return strcmp(((const struct s3_header *)a)->name, ((const struct s3_header *)b)->name);
}

static void sign_and_compare(struct s3_signing *s, const struct vector *v, struct s3_header *headers)
{
	char payload[SHA256_HEX + 1], credential[200];
	struct buffer out;
	for (unsigned i = 0; i < 2 && v->headers[i].name; i++)
		headers[s->count++] = v->headers[i];
	qsort(headers, s->count, sizeof *headers, by_name);
	if (!s->payload) {
		assert_true(sha256_hex(payload, v->body, strlen(v->body)));
		s->payload = payload;
	}
	s->method = v->method;
	s->path = str_from(v->path);
	s->query = str_from(v->query);
	s->headers = headers;
	buffer_init(&out, 10000);
	assert_true(s3_sign(&out, s));
	buffer_printf(&out, "%s", "");
	const char *text = (const char *)out.data, *end = strstr(text, ", Signature=");
	snprintf(credential, sizeof credential,
	        "AWS4-HMAC-SHA256 Credential=%s/%.8s/us-east-1/%s/aws4_request, SignedHeaders=", s->access, s->date,
	        s->service);
	assert_non_null(end);
	assert_memory_equal(text, credential, strlen(credential));
	if (strcmp(end + strlen(", Signature="), v->signature) != 0)
		fail_msg("%s: %s", v->name, text);
	buffer_release(&out);
}

static void the_test_suite_of_amazon(void **state)
{
	static const struct vector vectors[] = {
	        {"get-header-key-duplicate", "GET", "/", "", {{"my-header1", "value2,value2,value1"}}, "",
	                "c9d5ea9f3f72853aea855b47ea873832890dbdd183b4468f858259531a5138ea"},
	        {"get-header-value-order", "GET", "/", "", {{"my-header1", "value4,value1,value3,value2"}}, "",
	                "08c7e5a9acfcfeb3ab6b2185e75ce8b1deb5e634ec47601a50643f830c755c01"},
	        {"get-header-value-trim", "GET", "/", "", {{"my-header1", "value1"}, {"my-header2", "\"a b c\""}}, "",
	                "acc3ed3afb60bb290fc8d2dd0098b9911fcaa05412b367055dee359757a9c736"},
	        {"get-unreserved", "GET", "/-._~0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz", "",
	                {{NULL, NULL}}, "", "07ef7494c76fa4850883e2b006601f940f8a34d404d0cfa977f52a65bbf5f24f"},
	        {"get-utf8", "GET", "/%E1%88%B4", "", {{NULL, NULL}}, "",
	                "8318018e0b0f223aa2bbf98705b62bb787dc9c0e678f255a891fd03141be5d85"},
	        {"get-space-normalized", "GET", "/example%20space/", "", {{NULL, NULL}}, "",
	                "652487583200325589f1fba4c7e578f72c47cb61beeca81406b39ddec1366741"},
	        {"get-vanilla", "GET", "/", "", {{NULL, NULL}}, "",
	                "5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31"},
	        {"get-vanilla-empty-query-key", "GET", "/", "Param1=value1", {{NULL, NULL}}, "",
	                "a67d582fa61cc504c4bae71f336f98b97f1ea3c7a6bfe1b6e45aec72011b9aeb"},
	        {"get-vanilla-query-order-key-case", "GET", "/", "Param1=value1&Param2=value2", {{NULL, NULL}}, "",
	                "b97d918cfa904a5beff61c982a1b6f458b799221646efd99d3219ec94cdf2500"},
	        {"get-vanilla-query-order-encoded", "GET", "/", "%E1%88%B4=Value1&Param=Value2&Param-3=Value3",
	                {{NULL, NULL}}, "", "371d3713e185cc334048618a97f809c9ffe339c62934c032af5a0e595648fcac"},
	        {"get-vanilla-query-unreserved", "GET", "/",
	                "-._~0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz=-._~"
	                "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz",
	                {{NULL, NULL}}, "", "9c3e54bfcdf0b19771a7f523ee5669cdf59bc7cc0884027167c21bb143a40197"},
	        {"get-vanilla-utf8-query", "GET", "/", "%E1%88%B4=bar", {{NULL, NULL}}, "",
	                "2cdec8eed098649ff3a119c94853b13c643bcf08f8b0a1d91e12c9027818dd04"},
	        {"post-header-key-case", "POST", "/", "", {{NULL, NULL}}, "",
	                "5da7c1a2acd57cee7505fc6676e4e544621c30862966e37dddb68e92efbe5d6b"},
	        {"post-header-key-sort", "POST", "/", "", {{"my-header1", "value1"}}, "",
	                "c5410059b04c1ee005303aed430f6e6645f61f4dc9e1461ec8f8916fdf18852c"},
	        {"post-header-value-case", "POST", "/", "", {{"my-header1", "VALUE1"}}, "",
	                "cdbc9802e29d2942e5e10b5bccfdd67c5f22c7c4e8ae67b53629efa58b974b7d"},
	        {"post-sts-header-before", "POST", "/", "", {{"x-amz-security-token", TOKEN}}, "",
	                "85d96828115b5dc0cfc3bd16ad9e210dd772bbebba041836c64533a82be05ead"},
	        {"post-vanilla-query", "POST", "/", "Param1=value1", {{NULL, NULL}}, "",
	                "28038455d6de14eafc1f9222cf5aa6f1a96197d7deb8263271d420d138af7f11"},
	        {"post-vanilla-query-nonunreserved", "POST", "/",
	                "%2B=%2F%2C%3F%3E%3C%60%22%3B%3A%5C%7C%5D%5B%7B%7D&%40%23%24%25%5E=", {{NULL, NULL}}, "",
	                "66c82657c86e26fb25238d0e69f011edc4c6df5ae71119d7cb98ed9b87393c1e"},
	        {"post-vanilla-query-space", "POST", "/", "p=", {{NULL, NULL}}, "",
	                "e71688addb58a26418614085fb730ba3faa623b461c17f48f2fbdb9361b94a9b"},
	        {"post-x-www-form-urlencoded", "POST", "/", "", {{"content-type", "application/x-www-form-urlencoded"}},
	                "Param1=value1", "ff11897932ad3f4e8b18135d722051e5ac45fc38421b1da7b9d196a0fe09473a"},
	};
	(void)state;
	for (unsigned i = 0; i < sizeof vectors / sizeof vectors[0]; i++) {
		struct s3_header headers[4] = {{"x-amz-date", "20150830T123600Z"}, {"host", "example.amazonaws.com"}};
		struct s3_signing s = {.access = "AKIDEXAMPLE",
		        .secret = "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY",
		        .region = "us-east-1",
		        .service = "service",
		        .date = "20150830T123600Z",
		        .count = 2};
		sign_and_compare(&s, &vectors[i], headers);
	}
}

/* Object with Range, put, lifecycle (a parameter without a value), list. */
static void the_examples_of_s3(void **state)
{
	static const struct vector vectors[] = {
	        {"get object", "GET", "/test.txt", "", {{"range", "bytes=0-9"}}, "",
	                "f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41"},
	        {"put object", "PUT", "/test%24file.text", "",
	                {{"date", "Fri, 24 May 2013 00:00:00 GMT"}, {"x-amz-storage-class", "REDUCED_REDUNDANCY"}},
	                "Welcome to Amazon S3.", "98ad721746da40c64f1a55b78f14c238d841ea1380cd77a1b5971af0ece108bd"},
	        {"lifecycle", "GET", "/", "lifecycle=", {{NULL, NULL}}, "",
	                "fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543"},
	        {"list objects", "GET", "/", "max-keys=2&prefix=J", {{NULL, NULL}}, "",
	                "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7"},
	};
	char date[S3_SIGN_DATE], payload[SHA256_HEX + 1];
	(void)state;
	s3_sign_date(date, 1369353600);
	assert_string_equal(date, "20130524T000000Z");
	for (unsigned i = 0; i < sizeof vectors / sizeof vectors[0]; i++) {
		assert_true(sha256_hex(payload, vectors[i].body, strlen(vectors[i].body)));
		struct s3_header headers[5] = {{"x-amz-date", date}, {"x-amz-content-sha256", payload},
		        {"host", "examplebucket.s3.amazonaws.com"}};
		struct s3_signing s = {.access = "AKIAIOSFODNN7EXAMPLE",
		        .secret = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
		        .region = "us-east-1",
		        .service = "s3",
		        .date = date,
		        .payload = payload,
		        .count = 3};
		sign_and_compare(&s, &vectors[i], headers);
	}
}

/* Cloudflare's have 64 letters; with "AWS4" that is more than a block of SHA-256. From Python's hmac. */
static void a_long_secret(void **state)
{
	static const struct vector vector = {"long secret", "GET", "/test.txt", "", {{"range", "bytes=0-9"}}, "",
	        "e9959dccea2648a76a61dbc2a55ceec22c3f00a8ea001ee4e865c3f4246ffea2"};
	(void)state;
	char payload[SHA256_HEX + 1];
	assert_true(sha256_hex(payload, "", 0));
	struct s3_header headers[5] = {{"x-amz-date", "20130524T000000Z"}, {"x-amz-content-sha256", payload},
	        {"host", "examplebucket.s3.amazonaws.com"}};
	struct s3_signing s = {.access = "AKIAIOSFODNN7EXAMPLE",
	        .secret = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef",
	        .region = "us-east-1",
	        .service = "s3",
	        .date = "20130524T000000Z",
	        .payload = payload,
	        .count = 3};
	sign_and_compare(&s, &vector, headers);
}

/* A sanitizer's malloc counts nothing here. */
static void signing_keeps_no_memory(void **state)
{
	(void)state;
	static const struct s3_header host = {"host", "a"};
	struct s3_signing s = {"a", "s", "r", "s3", "20130524T000000Z", "GET", {"/", 1}, {"a=b", 3}, "", &host, 1};
	char signature[SHA256_HEX + 1];
	size_t held = 0;
	for (unsigned round = 0; round < 100; round++) {
		struct buffer out;
		buffer_init(&out, 10000);
		assert_true(s3_sign(&out, &s) && s3_signature(signature, &s));
		buffer_release(&out);
		if (round == 0)
			held = mallinfo2().uordblks;
	}
	assert_int_equal(mallinfo2().uordblks, held);
}

/* "Authenticating Requests: Using Query Parameters" of Amazon's documentation. */
static void the_example_of_a_presigned_url(void **state)
{
	(void)state;
	static const struct s3_header host = {"host", "examplebucket.s3.amazonaws.com"};
	static const char query[] =
	        "X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Credential=AKIAIOSFODNN7EXAMPLE%2F20130524%2F"
	        "us-east-1%2Fs3%2Faws4_request&X-Amz-Date=20130524T000000Z&X-Amz-Expires=86400&"
	        "X-Amz-SignedHeaders=host";
	struct s3_signing s = {.access = "AKIAIOSFODNN7EXAMPLE",
	        .secret = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
	        .region = "us-east-1",
	        .service = "s3",
	        .date = "20130524T000000Z",
	        .method = "GET",
	        .path = str_from("/test.txt"),
	        .query = str_from(query),
	        .payload = "UNSIGNED-PAYLOAD",
	        .headers = &host,
	        .count = 1};
	char signature[SHA256_HEX + 1];
	assert_true(s3_signature(signature, &s));
	assert_string_equal(signature, "aeeed9bbccd4d02ee5c0109b86d86835f995330da4c265957d157751f604d404");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	        cmocka_unit_test(the_test_suite_of_amazon),
	        cmocka_unit_test(the_examples_of_s3),
	        cmocka_unit_test(the_example_of_a_presigned_url),
	        cmocka_unit_test(a_long_secret),
	        cmocka_unit_test(signing_keeps_no_memory),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
