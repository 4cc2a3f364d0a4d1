/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "extract/function_names.h"

#include <dwarf.h>
#include <stdlib.h>

#include "extract/abbrev.h"
#include "extract/demangle.h"
#include "extract/own_name.h"
#include "extract/scopes.h"
#include "extract/type_names.h"

enum { REFERENCES_MAX = 16, SCOPES_MAX = 64, NESTED_MAX = 16, SYMBOLS_MAX = 64, NAME_LENGTH_MAX = DEMANGLE_OUTPUT_MAX };

void names_init(struct names *n, struct intern *strings)
{
	*n = (struct names){.strings = strings};
	buffer_init(&n->text, 4 * DEMANGLE_OUTPUT_MAX);
}

void names_release(struct names *n)
{
	for (struct scopes *s; (s = n->scopes);) {
		n->scopes = s->next;
		scopes_free(s);
	}
	map64_release(&n->by_die);
	map64_release(&n->incomplete);
	map64_release(&n->by_linkage);
	map64_release(&n->by_unit);
	abbrev_table_release(&n->abbrevs);
	buffer_release(&n->text);
}

static bool remember(struct map64 *map, const void *key, struct str name)
{
	return map64_put(map, (uintptr_t)key, name.len > 0 ? (uintptr_t)name.data : 1);
}

static bool recall(const struct map64 *map, const void *key, struct str *name)
{
	uint64_t at = map64_get(map, (uintptr_t)key);
	if (at > 0)
		*name = at > 1 ? intern_at(at) : (struct str){"", 0};
	return at > 0;
}

static struct str shown(const struct names *n, struct str linkage)
{
	return n->whole ? linkage : demangle_base(linkage);
}

/* The demangled form of a linkage name, or an empty one. */
static bool demangled(struct names *n, struct str linkage, struct str *name)
{
	if (recall(&n->by_linkage, linkage.data, name))
		return true;
	buffer_reset(&n->text);
	*name = (struct str){"", 0};
	if (demangle(&n->text, shown(n, linkage)))
		*name = intern_add(n->strings, (struct str){(const char *)n->text.data, n->text.len});
	return name->data && remember(&n->by_linkage, linkage.data, *name);
}

struct str names_of_symbol(struct names *n, struct str symbol)
{
	struct str name;
	if (!demangled(n, symbol, &name))
		return (struct str){0};
	return name.len > 0 ? name : intern_add(n->strings, shown(n, symbol));
}

struct str names_of_stub(struct names *n, struct str symbol)
{
	struct str name = names_of_symbol(n, symbol);
	buffer_reset(&n->text);
	buffer_append_str(&n->text, str_first(name, NAME_LENGTH_MAX));
	buffer_append_str(&n->text, str_from("@plt"));
	bool ok = name.data && !n->text.failed;
	return ok ? intern_add(n->strings, (struct str){(const char *)n->text.data, n->text.len}) : (struct str){0};
}

/* Attributes that follow one of a form that libdw does not know: libdw does not find these. */
static bool find_past_unknown(struct names *n, Dwarf_Die *die, unsigned attribute, Dwarf_Attribute *a)
{
	Dwarf_Die root;
	struct die_unit u;
	struct die d = {.at = die->addr};
	if (!dwarf_diecu(die, &root, NULL, NULL) || die_unit_open(&u, &root, &n->abbrevs, NULL))
		return false;
	struct reader r = {.at = d.at, .end = u.end};
	d.abbrev = abbrev_find(&n->abbrevs, reader_varint(&r));
	d.attrs = r.at;
	if (r.bad || !d.abbrev)
		return false;
	for (struct die_attrs i = die_attributes(&u, &d); die_attr_next(&u, &i, a);)
		if (a->code == attribute)
			return true;
	return false;
}

bool names_attribute(struct names *n, const Dwarf_Die *die, unsigned attribute, Dwarf_Attribute *a)
{
	Dwarf_Die copy = *die;
	dwarf_errno(); /* forgets older errors */
	return dwarf_attr(&copy, attribute, a) || (dwarf_errno() != 0 && find_past_unknown(n, &copy, attribute, a));
}

struct str names_text(struct names *n, const Dwarf_Die *die, unsigned attribute)
{
	Dwarf_Attribute a;
	const char *text = names_attribute(n, die, attribute, &a) ? dwarf_formstring(&a) : NULL;
	return text ? (struct str){text, strnlen(text, NAME_LENGTH_MAX)} : (struct str){"", 0};
}

/* The entry that die is a copy or the definition of. */
static bool step_to_origin(struct names *n, Dwarf_Die *die)
{
	Dwarf_Attribute a;
	Dwarf_Die next;
	if (!names_attribute(n, die, DW_AT_abstract_origin, &a) && !names_attribute(n, die, DW_AT_specification, &a))
		return false;
	if (!dwarf_formref_die(&a, &next))
		return false;
	*die = next;
	return true;
}

/* Languages without namespaces, where a class around a function is not part of its name. */
static bool is_plain_language(int language)
{
	return language == DW_LANG_C || language == DW_LANG_C89 || language == DW_LANG_C99 || language == DW_LANG_C11 ||
	       language == 0x2c /* C17 */ || language == DW_LANG_Mips_Assembler;
}

static bool is_cplusplus(int language)
{
	return language == DW_LANG_C_plus_plus || language == DW_LANG_C_plus_plus_03 ||
	       language == DW_LANG_C_plus_plus_11 || language == DW_LANG_C_plus_plus_14 ||
	       language == 0x2a /* C++17 */ || language == 0x2b /* C++20 */;
}

/* The scopes of a unit, read when they are first needed. */
static enum err scopes_of(struct names *n, const Dwarf_Die *root, struct scopes **found, struct error *e)
{
	struct scopes *s = (struct scopes *)(uintptr_t)map64_get(&n->by_unit, (uintptr_t)root->addr);
	enum err err = ERR_OK;
	if (!s) {
		s = calloc(1, sizeof *s);
		if (!s)
			return no_memory(e);
		s->next = n->scopes;
		n->scopes = s;
		err = scopes_read(s, root, &n->abbrevs, e);
		if (err == ERR_CORRUPT) /* those before the damage */
			err = ERR_OK;
		if (!err && !map64_put(&n->by_unit, (uintptr_t)root->addr, (uintptr_t)s))
			err = no_memory(e);
	}
	*found = s;
	return err;
}

static bool is_in_cplusplus(const Dwarf_Die *die)
{
	Dwarf_Die copy = *die, root;
	return dwarf_diecu(&copy, &root, NULL, NULL) && is_cplusplus(dwarf_srclang(&root));
}

/* A class or namespace, as it is called within the scope around it. */
static enum err class_name(struct names *n, const Dwarf_Die *die, struct str *out, struct error *e)
{
	Dwarf_Die copy = *die;
	Dwarf_Attribute a;
	struct buffer text;
	const char *name = dwarf_attr_integrate(&copy, DW_AT_name, &a) ? dwarf_formstring(&a) : NULL;
	bool is_namespace = dwarf_tag(&copy) == DW_TAG_namespace, cplusplus = !is_namespace && is_in_cplusplus(die);
	if (!name && is_namespace)
		name = "(anonymous namespace)";
	buffer_init(&text, NAME_LENGTH_MAX);
	if (name && buffer_append(&text, name, strnlen(name, NAME_LENGTH_MAX)) && cplusplus)
		type_names_arguments(n, &text, &copy);
	else if (!name && cplusplus)
		type_names_unnamed(n, &text, &copy);
	*out = intern_add(n->strings, (struct str){text.len ? (const char *)text.data : "", text.len});
	bool ok = out->data && !text.failed;
	buffer_release(&text);
	return ok ? ERR_OK : no_memory(e);
}

static enum err scope_name(struct names *n, struct scopes *s, ptrdiff_t at, struct str *out, struct error *e)
{
	Dwarf_Die die = die_handle(&s->unit, s->items[at].die);
	struct str *kept = &s->items[at].name;
	enum err err = ERR_OK;
	if (s->items[at].function)
		return n->nested < NESTED_MAX ? names_get(n, &die, out, e) : ERR_OK;
	if (!kept->data && n->nested < NESTED_MAX)
		err = class_name(n, &die, kept, e);
	*out = kept->data ? *kept : (struct str){"", 0};
	return err;
}

/* The names of a scope and of those around it, the innermost first. A function's name already contains those around the
 * function. */
static enum err scope_names(struct names *n, struct scopes *s, ptrdiff_t innermost, struct str names[SCOPES_MAX],
        size_t *count, struct error *e)
{
	enum err err = ERR_OK;
	bool function = false;
	*count = 0;
	n->nested++;
	for (ptrdiff_t at = innermost; at != SCOPE_NONE && *count < SCOPES_MAX && !function && !err;
	        at = s->items[at].parent) {
		names[*count] = (struct str){"", 0};
		err = scope_name(n, s, at, &names[(*count)++], e);
		function = s->items[at].function;
	}
	n->nested--;
	return err;
}

/* The outermost first. */
static void append_scopes(struct buffer *out, const struct str *names, size_t count, const char *between)
{
	while (count > 0) {
		struct str name = names[--count];
		if (name.len > 0 && out->len + name.len <= NAME_LENGTH_MAX) {
			buffer_append_str(out, name);
			buffer_append_str(out, str_from(between));
		}
	}
}

enum err names_append_scopes(struct names *n, struct buffer *out, Dwarf_Die *die, struct error *e)
{
	Dwarf_Die root;
	struct scopes *s = NULL;
	struct str around[SCOPES_MAX];
	size_t count = 0;
	if (!dwarf_diecu(die, &root, NULL, NULL) || is_plain_language(dwarf_srclang(&root)))
		return ERR_OK;
	enum err err = scopes_of(n, &root, &s, e);
	if (!err)
		err = scope_names(n, s, scopes_around(s, die->addr), around, &count, e);
	if (!err)
		append_scopes(out, around, count, dwarf_srclang(&root) == DW_LANG_D ? "." : "::");
	return err;
}

static bool is_external(struct names *n, const Dwarf_Die *die)
{
	Dwarf_Attribute a;
	bool flag = false;
	return names_attribute(n, die, DW_AT_external, &a) && dwarf_formflag(&a, &flag) == 0 && flag;
}

/* The name of a function without a linkage name: with its scopes, and in C++ its parameters. */
static enum err append_qualified(
        struct names *n, struct buffer *out, Dwarf_Die *declared, struct str plain, bool linkage, struct error *e)
{
	enum err err = names_append_scopes(n, out, declared, e);
	if (err)
		return err;
	buffer_append_str(out, plain);
	/* What other files may call and has no linkage name is named as in C. */
	if (is_in_cplusplus(declared) && (linkage || !is_external(n, declared))) {
		type_names_arguments(n, out, declared);
		type_names_parameters(n, out, declared);
	}
	return out->failed || n->no_memory ? no_memory(e) : ERR_OK;
}

static enum err qualified(
        struct names *n, Dwarf_Die *declared, struct str plain, bool linkage, struct str *name, struct error *e)
{
	struct buffer text;
	if (plain.len > NAME_LENGTH_MAX)
		plain.len = NAME_LENGTH_MAX;
	*name = (struct str){"", 0};
	if (plain.len == 0)
		return ERR_OK;
	buffer_init(&text, 4 * DEMANGLE_OUTPUT_MAX);
	enum err err = append_qualified(n, &text, declared, plain, linkage, e);
	if (!err)
		*name = intern_add(n->strings, (struct str){(const char *)text.data, text.len});
	buffer_release(&text);
	return err ? err : name->data ? ERR_OK : no_memory(e);
}

static struct str linkage_name(struct names *n, const Dwarf_Die *die)
{
	struct str s = names_text(n, die, DW_AT_linkage_name);
	return s.len > 0 ? s : names_text(n, die, DW_AT_MIPS_linkage_name);
}

/* Where gcc keeps to DWARF 2, the cold part of a function has an entry of its own. */
static struct str without_part(struct str plain)
{
	static const char part[] = "__second_sect_of_";
	size_t n = sizeof part - 1;
	bool is_part = plain.len > n && memcmp(plain.data, part, n) == 0;
	return is_part ? (struct str){plain.data + n, plain.len - n} : plain;
}

/* The last entry of the chain is the declaration: the one that lies in its namespace or class. */
static enum err resolve(struct names *n, const Dwarf_Die *first, struct str *name, bool *incomplete, struct error *e)
{
	Dwarf_Die die = *first;
	struct str linkage = linkage_name(n, &die), plain = names_text(n, &die, DW_AT_name);
	for (int i = 0; i < REFERENCES_MAX && step_to_origin(n, &die); i++) {
		linkage = linkage.len > 0 ? linkage : linkage_name(n, &die);
		plain = plain.len > 0 ? plain : names_text(n, &die, DW_AT_name);
	}
	plain = without_part(plain);
	/* gcc's OpenMP regions and transactional clones have no linkage name: theirs is the plain one. */
	struct str mangled = linkage.len > 0 || !demangle_wanted(plain) ? linkage : plain;
	*name = (struct str){"", 0};
	if (mangled.len > 0 && !demangled(n, mangled, name))
		return no_memory(e);
	if (name->len > 0)
		return ERR_OK;
	/* A linkage name that is not mangled says more than the name does: open64 for open. */
	if (linkage.len > 0 && (plain.len == 0 || !demangle_wanted(linkage))) {
		*name = intern_add(n->strings, demangle_base(linkage));
		return name->data ? ERR_OK : no_memory(e);
	}
	Dwarf_Die root;
	*incomplete = dwarf_diecu(&die, &root, NULL, NULL) &&
	              (plain.len > 0 && plain.data[0] == '_' ? true : !is_plain_language(dwarf_srclang(&root)));
	return qualified(n, &die, plain, linkage.len > 0, name, e);
}

enum err names_get(struct names *n, const Dwarf_Die *die, struct str *name, struct error *e)
{
	bool incomplete = false;
	if (recall(&n->by_die, die->addr, name))
		return ERR_OK;
	enum err err = resolve(n, die, name, &incomplete, e);
	bool ok = err || (remember(&n->by_die, die->addr, *name) &&
	                         (!incomplete || map64_put(&n->incomplete, (uintptr_t)die->addr, 1)));
	return ok ? err : no_memory(e);
}

bool names_incomplete(const struct names *n, const Dwarf_Die *die)
{
	return map64_get(&n->incomplete, (uintptr_t)die->addr) > 0;
}

/* The public name of a library's own function: openat of __libc_openat64. */
static bool is_public_name(struct str name, struct str symbol)
{
	enum { LENGTH_MIN = 3 };
	return name.data[0] == '_' && symbol.data[0] != '_' && symbol.len >= LENGTH_MIN &&
	       memmem(name.data, name.len, symbol.data, symbol.len);
}

static bool is_complete_name(struct str name, struct str symbol, struct str demangled)
{
	if (demangled.len > 0)
		return str_equal(own_name(demangled), own_name(name));
	return is_public_name(name, symbol);
}

/* Where functions with equal code were folded, symbols of several begin. */
enum err names_complete(struct names *n, uint64_t address, struct str *name, struct error *e)
{
	const char *symbol = NULL;
	enum err err = ERR_OK;
	for (size_t i = 0; n->symbols && name->len > 0 && i < SYMBOLS_MAX && !err; i++) {
		struct str found = {"", 0}, linkage;
		err = n->symbols->at(n->symbols->arg, address, i, &symbol, e);
		if (err || !symbol)
			break;
		linkage = (struct str){symbol, strnlen(symbol, NAME_LENGTH_MAX)};
		if (demangle_wanted(linkage) && !demangled(n, linkage, &found))
			return no_memory(e);
		if (is_complete_name(*name, linkage, found)) {
			*name = found.len > 0 ? found : intern_add(n->strings, linkage);
			return name->data ? ERR_OK : no_memory(e);
		}
	}
	return err;
}
