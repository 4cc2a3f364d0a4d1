/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "objects/source_search.h"

#include "objects/bucket_backend.h"
#include "objects/source_health.h"

static bool is_over(const struct source_search *w)
{
	return (w->cancel && atomic_load(w->cancel)) || (w->stopping && atomic_load(w->stopping));
}

static bool is_asked(const struct bucket_sources *s, const struct source_search *w, unsigned source)
{
	const enum bucket_kind kind = bucket_source_kind(s, source);
	return w->kinds >> kind & 1 && (w->first == SPELLED_SO || kind == BUCKET_SYMS);
}

static bool is_good(const struct bucket_sources *s, unsigned source)
{
	struct source_health *h = bucket_source_health(s, source);
	return !h || source_health_is_good(h);
}

/* Whether it is passed over. */
static bool is_passed(const struct bucket_sources *s, const struct source_search *w, unsigned source)
{
	if (is_good(s, source))
		return false;
	for (unsigned i = source + 1; i < bucket_sources_count(s); i++)
		if (is_asked(s, w, i) && is_good(s, i))
			return true;
	return false;
}

/* How the digits of a build id are spelled does not matter. */
static enum source_answer ask(const struct bucket_sources *s, struct source_search *w, unsigned source)
{
	char text[BUCKET_ID_MAX + 1];
	struct str id;
	const bool is_sym = bucket_source_kind(s, source) == BUCKET_SYMS;
	enum source_answer answer = SOURCE_MISSING;
	for (enum bucket_spelling how = w->first; how < w->end && answer == SOURCE_MISSING; how++)
		if ((is_sym || how == SPELLED_SO) && bucket_spell(w->id, how, text, &id))
			answer = is_over(w) ? SOURCE_STOP : w->ask(w->arg, source, id);
	return answer;
}

static enum source_answer ask_again(const struct bucket_sources *s, struct source_search *w, unsigned source)
{
	enum source_answer answer = SOURCE_FAILED;
	for (uint64_t i = 0; i < w->tries && answer == SOURCE_FAILED; i++) {
		bucket_pause(i);
		answer = ask(s, w, source);
	}
	return answer;
}

/* One that was passed over, if nobody else is asking it. */
static enum source_answer ask_ill(const struct bucket_sources *s, struct source_search *w, unsigned source)
{
	struct source_health *h = bucket_source_health(s, source);
	if (!source_health_begin(h))
		return SOURCE_FAILED;
	const enum source_answer answer = ask(s, w, source);
	source_health_end(h);
	return answer;
}

/* Whether the search ends. Else *sum takes in what this source answered. */
static bool ends(enum source_answer answer, enum source_answer *sum)
{
	if (answer == SOURCE_GOOD || answer == SOURCE_STOP)
		return true;
	if (answer > *sum)
		*sum = answer;
	return false;
}

static enum source_answer search(
        const struct bucket_sources *s, struct source_search *w, enum bucket_spelling first, enum bucket_spelling end)
{
	enum source_answer answer, sum = SOURCE_MISSING;
	source_set ill = 0;
	w->first = first;
	w->end = end;
	w->passed = 0;
	for (unsigned i = 0; i < bucket_sources_count(s); i++) {
		if (!is_asked(s, w, i))
			continue;
		const bool passed = is_passed(s, w, i);
		answer = passed ? SOURCE_FAILED : ask(s, w, i);
		ill |= (source_set)passed << i;
		w->passed |= (source_set)(answer == SOURCE_FAILED) << i;
		if (answer != SOURCE_FAILED && ends(answer, &sum))
			return answer;
	}
	const source_set again = w->passed;
	for (unsigned i = 0; i < bucket_sources_count(s); i++) {
		if (!(again >> i & 1))
			continue;
		answer = ill >> i & 1 ? ask_ill(s, w, i) : ask_again(s, w, i);
		if (answer != SOURCE_FAILED)
			w->passed &= ~((source_set)1 << i);
		if (ends(answer, &sum)) {
			w->passed &= ((source_set)1 << i) - 1;
			return answer;
		}
	}
	return sum;
}

enum source_answer source_search(const struct bucket_sources *s, struct source_search *w)
{
	enum source_answer answer = search(s, w, SPELLED_SO, BUCKET_USUAL_SPELLINGS);
	return answer == SOURCE_MISSING ? search(s, w, BUCKET_USUAL_SPELLINGS, BUCKET_SPELLINGS) : answer;
}
