/* SPDX-License-Identifier: Apache-2.0 */
/* The credentials file has the format of Amazon's tools: sections in brackets, lines of key = value, whole-line
 * comments. Error texts name a line, never its contents. */
#include <config.h>

#include "objects/s3.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LINE_SIZE = 8192, LINES_MAX = 100000 };

static bool replace(char **to, const char *text)
{
	free(*to);
	*to = strdup(text);
	return *to;
}

void s3_keys_release(struct s3_keys *k)
{
	if (k->secret)
		explicit_bzero(k->secret, strlen(k->secret));
	if (k->token)
		explicit_bzero(k->token, strlen(k->token));
	free(k->access);
	free(k->secret);
	free(k->token);
	*k = (struct s3_keys){0};
}

bool s3_key_is_valid(const char *text)
{
	for (; *text; text++)
		if (*text <= ' ' || *text > '~')
			return false;
	return true;
}

/* The field for a key of the file; NULL for keys that we do not use. */
static char **field_of(struct s3_keys *k, const char *key)
{
	if (strcmp(key, "aws_access_key_id") == 0)
		return &k->access;
	if (strcmp(key, "aws_secret_access_key") == 0)
		return &k->secret;
	return strcmp(key, "aws_session_token") == 0 ? &k->token : NULL;
}

/* Reads one line; *inside tells whether it is in the profile's section. False if it is malformed. */
static bool take_line(struct s3_keys *k, char *line, const char *profile, bool *inside, bool *memory)
{
	char *text = trimmed_line(line), *equals = strchr(text, '=');
	size_t len = strlen(text);
	if (!len || *text == '#' || *text == ';')
		return true;
	if (*text == '[') {
		if (text[len - 1] != ']')
			return false;
		text[len - 1] = 0;
		*inside = strcmp(trimmed_line(text + 1), profile) == 0;
		return true;
	}
	if (!equals)
		return false;
	*equals = 0;
	char **field = *inside ? field_of(k, trimmed_line(text)) : NULL, *value = trimmed_line(equals + 1);
	if (!field)
		return true;
	*memory = replace(field, value);
	return s3_key_is_valid(value);
}

static enum err read_file(struct s3_keys *k, const char *path, const char *profile, struct error *e)
{
	char line[LINE_SIZE];
	unsigned number = 0;
	bool inside = false, good = true, memory = true;
	FILE *in = fopen(path, "re");
	if (!in)
		return error_set(e, ERR_CONFIG, "s3_credentials_file: %.100s: %s", path, strerror(errno));
	while (good && memory && number < LINES_MAX && fgets(line, sizeof line, in)) {
		number++;
		good = (strchr(line, '\n') || feof(in)) && take_line(k, line, profile, &inside, &memory);
	}
	explicit_bzero(line, sizeof line);
	bool unread = ferror(in);
	fclose(in);
	if (!memory)
		return no_memory(e);
	if (!good || unread)
		return error_set(
		        e, ERR_CONFIG, "s3_credentials_file: %.100s: cannot read line %u", path, number + unread);
	if (!k->access || !*k->access || !k->secret || !*k->secret)
		return error_set(e, ERR_CONFIG,
		        "s3_credentials_file: %.100s: no aws_access_key_id and aws_secret_access_key in section %.40s",
		        path, profile);
	return ERR_OK;
}

/* An empty variable counts as unset. */
static bool take_variable(char **to, const char *name)
{
	const char *text = getenv(name);
	return !text || !*text || replace(to, text);
}

static enum err read_environment(struct s3_keys *k, struct error *e)
{
	if (!take_variable(&k->access, "AWS_ACCESS_KEY_ID") || !take_variable(&k->secret, "AWS_SECRET_ACCESS_KEY") ||
	        !take_variable(&k->token, "AWS_SESSION_TOKEN"))
		return no_memory(e);
	if (!k->access != !k->secret)
		return error_set(
		        e, ERR_CONFIG, "only one of AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY is in the environment");
	if ((k->access && (!s3_key_is_valid(k->access) || !s3_key_is_valid(k->secret))) ||
	        (k->token && !s3_key_is_valid(k->token)))
		return error_set(e, ERR_CONFIG, "a blank or control character in the AWS keys of the environment");
	return ERR_OK;
}

enum err s3_keys_find(struct s3_keys *k, const struct config *c, struct error *e)
{
	const char *profile = c->s3_profile && *c->s3_profile ? c->s3_profile : "default";
	*k = (struct s3_keys){0};
	enum err err = c->s3_credentials_file && *c->s3_credentials_file
	                       ? read_file(k, c->s3_credentials_file, profile, e)
	                       : read_environment(k, e);
	if (err)
		s3_keys_release(k);
	return err;
}
