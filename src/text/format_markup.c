/* SPDX-License-Identifier: Apache-2.0 */
/* LLVM's Symbolizer Markup, which sanitizers and Fuchsia write: modules with their build ids, where their segments lie,
 * and then frames, which no name stands beside.
 *
 * {{{reset}}}
 * {{{module:0:libx.so:elf:5f6d1234}}}
 * {{{mmap:0x7f5b12345000:0x5a000:load:0:rx:0x1000}}}
 * {{{bt:1:0x7f5b12345678}}}, {{{bt:1:0x7f5b12345678:ra}}}, {{{pc:0x7f5b12345678}}} */
#include <config.h>

#include "text/formats.h"
#include "text/signs.h"

enum { MODULES_MAX = 128, SEGMENTS_MAX = 512, FRAMES_MAX = 16 };

struct markup {
	struct markup_module {
		char name[128], id[64];
		size_t name_len, id_len;
		uint64_t number;
	} modules[MODULES_MAX];
	struct markup_segment {
		uint64_t start, size, bias; /* address - bias is the address in the file */
		unsigned module;
	} segments[SEGMENTS_MAX];
	unsigned module_count, segment_count;
	unsigned source; /* of the log from which these are */
};

/* A number of an element, and the colon behind it unless it is the last. */
static bool take_field(struct rest *r, uint64_t *out)
{
	return (take_0x(r, out) || take_decimal(r, out)) && (take_literal(r, ":") || r->at == r->end);
}

static struct str take_part(struct rest *r)
{
	struct str rest = between(r->at, r->end), word = str_cut(&rest, ':');
	r->at = r->end - rest.len;
	return word;
}

/* 0:libx.so:elf:5f6d1234 */
static void add_module(struct markup *m, struct rest r)
{
	struct markup_module module;
	if (m->module_count == MODULES_MAX || !take_field(&r, &module.number))
		return;
	struct str name = take_part(&r), type = take_part(&r), id = take_part(&r);
	if (!name.len || name.len > sizeof module.name || !id.len || id.len > sizeof module.id ||
	        !str_equal(type, str_from("elf")))
		return;
	memcpy(module.name, name.data, module.name_len = name.len);
	memcpy(module.id, id.data, module.id_len = id.len);
	m->modules[m->module_count++] = module;
}

/* 0x7f5b12345000:0x5a000:load:0:rx:0x1000 */
static void add_segment(struct markup *m, struct rest r)
{
	struct markup_segment s;
	uint64_t number, address;
	if (m->segment_count == SEGMENTS_MAX || !take_field(&r, &s.start) || !take_field(&r, &s.size) ||
	        !take_literal(&r, "load:") || !take_field(&r, &number) || !take_part(&r).len ||
	        !take_field(&r, &address))
		return;
	s.bias = s.start - address;
	for (s.module = m->module_count; s.module-- > 0;)
		if (m->modules[s.module].number == number) {
			m->segments[m->segment_count++] = s;
			return;
		}
}

/* NULL if none has the address, or several, as when a process began that wrote no {{{reset}}}. */
static const struct markup_segment *find_segment(const struct markup *m, uint64_t address)
{
	const struct markup_segment *found = NULL;
	for (unsigned i = 0; i < m->segment_count; i++) {
		const struct markup_segment *s = &m->segments[i];
		if (address - s->start >= s->size)
			continue;
		if (found && (found->bias != s->bias || found->module != s->module))
			return NULL;
		found = s;
	}
	return found;
}

/* 0x7f5b12345678, 0x7f5b12345678:ra; end: of the element. */
static void found_code(struct text_reader *r, struct rest code, bool caller, const char *end)
{
	struct text_frame f = {.base = TEXT_ELF};
	const struct markup *m = r->state;
	uint64_t address;
	if (!take_field(&code, &address) || r->frames == FRAMES_MAX)
		return;
	if (code.at < code.end)
		caller = str_equal(between(code.at, code.end), str_from("ra"));
	f.offset = address;
	f.address = address - (caller && address);
	text_edit_one(r, &f, end, end, TEXT_PARENTHESES);
	const struct markup_segment *s = m->source == r->source ? find_segment(m, f.address) : NULL;
	if (!s) {
		text_found(r, &f, NOTHING, NOTHING, TEXT_ID_GIVEN);
		return;
	}
	const struct markup_module *module = &m->modules[s->module];
	f.offset -= s->bias;
	f.address -= s->bias;
	text_found(r, &f, (struct str){module->name, module->name_len}, (struct str){module->id, module->id_len},
	        TEXT_ID_BUILD);
}

static void read_element(struct text_reader *r, struct rest element, const char *end)
{
	struct markup *m = r->state;
	uint64_t number;
	if (take_literal(&element, "reset")) {
		m->module_count = m->segment_count = 0;
		m->source = r->source;
	} else if (take_literal(&element, "module:")) {
		m->source = r->source;
		add_module(m, element);
	} else if (take_literal(&element, "mmap:")) {
		add_segment(m, element);
	} else if (take_literal(&element, "bt:")) {
		if (take_field(&element, &number))
			found_code(r, element, number > 0, end);
	} else if (take_literal(&element, "pc:")) {
		found_code(r, element, false, end);
	}
}

static bool read_markup(struct text_reader *r, struct rest line)
{
	bool any = false;
	while ((line.at = find_word(line.at, line.end, "{{{")) && !r->result) {
		line.at += strlen("{{{");
		const char *close = find_word(line.at, line.end, "}}}");
		if (!close)
			break;
		if (!(r->state = text_state(r, &text_markup)))
			break;
		read_element(r, (struct rest){line.at, close}, close + strlen("}}}"));
		line.at = close + strlen("}}}");
		any = true;
	}
	return any;
}

TEXT_FORMAT(text_markup, .which = TEXT_ANCHORED, .signs = SIGN_BRACE, .read = read_markup,
        .state_size = sizeof(struct markup), .late = true);
