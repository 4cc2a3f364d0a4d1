/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "extract/type_names.h"

#include <dwarf.h>
#include <inttypes.h>

/* A type may refer to many, and to itself: what one name may look at, and how deeply. */
enum { STEPS_MAX = 2000, DEPTH_MAX = 16, SIGNS_MAX = 16, CHILDREN_MAX = 256 };

struct printer {
	struct names *n;
	struct buffer *out;
	unsigned steps, depth;
};

static bool append_type(struct printer *p, const Dwarf_Die *of, bool parameter);
static void append_arguments(struct printer *p, const Dwarf_Die *die);
static void append_unnamed(struct printer *p, const Dwarf_Die *die);

static bool append_text(struct printer *p, const char *text)
{
	return buffer_append(p->out, text, strlen(text));
}

static bool may_step(struct printer *p)
{
	return p->steps < STEPS_MAX && ++p->steps;
}

/* Steps to the type of an entry. False: it has none, as void. */
static bool step_to_type(struct printer *p, Dwarf_Die *die)
{
	Dwarf_Attribute a;
	Dwarf_Die type;
	if (!names_attribute(p->n, die, DW_AT_type, &a) || !dwarf_formref_die(&a, &type))
		return false;
	*die = type;
	return true;
}

/* The entries within die, up to where code begins. */
struct children {
	Dwarf_Die die;
	unsigned count;
};

static bool is_code(int tag)
{
	return tag == DW_TAG_lexical_block || tag == DW_TAG_inlined_subroutine || tag == DW_TAG_variable ||
	       tag == DW_TAG_call_site || tag == DW_TAG_GNU_call_site;
}

static bool next_child(struct printer *p, struct children *c, const Dwarf_Die *parent)
{
	Dwarf_Die from = c->count ? c->die : *parent;
	bool first = c->count == 0;
	if (c->count++ == CHILDREN_MAX || !may_step(p))
		return false;
	return (first ? dwarf_child(&from, &c->die) : dwarf_siblingof(&from, &c->die)) == 0 &&
	       !is_code(dwarf_tag(&c->die));
}

/* gcc spells base types otherwise than demanglers. */
static const char *base_name(const char *name)
{
	static const char *const spelled[][2] = {
	        {"short int", "short"},
	        {"short unsigned int", "unsigned short"},
	        {"long int", "long"},
	        {"long unsigned int", "unsigned long"},
	        {"long long int", "long long"},
	        {"long long unsigned int", "unsigned long long"},
	        {"__int128 unsigned", "unsigned __int128"},
	};
	for (size_t i = 0; i < sizeof spelled / sizeof *spelled; i++)
		if (strcmp(name, spelled[i][0]) == 0)
			return spelled[i][1];
	return name;
}

static const char *sign_of(int tag)
{
	switch (tag) {
	case DW_TAG_pointer_type:
		return "*";
	case DW_TAG_reference_type:
		return "&";
	case DW_TAG_rvalue_reference_type:
		return "&&";
	case DW_TAG_const_type:
		return " const";
	case DW_TAG_volatile_type:
		return " volatile";
	default:
		return NULL;
	}
}

static bool is_class(int tag)
{
	return tag == DW_TAG_class_type || tag == DW_TAG_structure_type || tag == DW_TAG_union_type ||
	       tag == DW_TAG_interface_type || tag == DW_TAG_enumeration_type;
}

/* A typedef counts only as the name of a class that has no other. */
static bool names_unnamed(struct printer *p, const Dwarf_Die *alias)
{
	Dwarf_Die type = *alias;
	return step_to_type(p, &type) && is_class(dwarf_tag(&type)) && names_text(p->n, &type, DW_AT_name).len == 0;
}

/* What is around the innermost type: signs from the outermost on. */
struct signs {
	const char *items[SIGNS_MAX];
	size_t count;
};

static bool append_signs(struct printer *p, const struct signs *signs)
{
	for (size_t i = signs->count; i > 0; i--)
		if (!append_text(p, signs->items[i - 1]))
			return false;
	return true;
}

/* Steps to the innermost type. *none: it is void. The outermost const of a parameter is no part of a name. */
static bool strip_signs(struct printer *p, Dwarf_Die *type, bool parameter, struct signs *signs, bool *none)
{
	while (may_step(p)) {
		*none = !step_to_type(p, type);
		int tag = *none ? 0 : dwarf_tag(type);
		const char *sign = sign_of(tag);
		if (tag == DW_TAG_restrict_type || (tag == DW_TAG_typedef && !names_unnamed(p, type)))
			continue;
		if (!sign)
			return true;
		if (*sign == ' ' && parameter && signs->count == 0)
			continue;
		if (signs->count == SIGNS_MAX)
			return false;
		signs->items[signs->count++] = sign;
	}
	return false;
}

static bool is_parameter(int tag)
{
	return tag == DW_TAG_formal_parameter || tag == DW_TAG_unspecified_parameters ||
	       tag == DW_TAG_GNU_formal_parameter_pack;
}

static bool is_artificial(struct printer *p, const Dwarf_Die *die)
{
	Dwarf_Attribute a;
	bool flag = false;
	return names_attribute(p->n, die, DW_AT_artificial, &a) && dwarf_formflag(&a, &flag) == 0 && flag;
}

static bool append_parameter(struct printer *p, const Dwarf_Die *die, bool *any)
{
	if (*any && !append_text(p, ", "))
		return false;
	*any = true;
	return dwarf_tag((Dwarf_Die *)(uintptr_t)die) == DW_TAG_unspecified_parameters ? append_text(p, "...")
	                                                                               : append_type(p, die, true);
}

/* Those of a parameter pack are within it. */
static bool append_pack(struct printer *p, const Dwarf_Die *pack, bool *any)
{
	for (struct children c = {.count = 0}; next_child(p, &c, pack);)
		if (dwarf_tag(&c.die) == DW_TAG_formal_parameter && !append_parameter(p, &c.die, any))
			return false;
	return true;
}

/* *self: the parameter that is the object of a member function, if there is one; count: of all parameters. */
static bool append_list(struct printer *p, const Dwarf_Die *function, Dwarf_Die *self, unsigned *count)
{
	bool any = false, ok = append_text(p, "(");
	for (struct children c = {.count = 0}; ok && next_child(p, &c, function);) {
		int tag = dwarf_tag(&c.die);
		if (!is_parameter(tag))
			continue;
		bool first = (*count)++ == 0;
		if (tag == DW_TAG_GNU_formal_parameter_pack)
			ok = append_pack(p, &c.die, &any);
		else if (!is_artificial(p, &c.die))
			ok = append_parameter(p, &c.die, &any);
		else if (first && self)
			*self = c.die;
	}
	return ok && p->steps < STEPS_MAX && append_text(p, ")");
}

static bool append_function_type(struct printer *p, const Dwarf_Die *type, const struct signs *signs)
{
	unsigned count = 0;
	return append_type(p, type, false) && append_text(p, signs->count ? " (" : " ") && append_signs(p, signs) &&
	       append_text(p, signs->count ? ")" : "") && append_list(p, type, NULL, &count);
}

static bool append_array(struct printer *p, const Dwarf_Die *type, const struct signs *signs)
{
	bool ok = append_type(p, type, false) && append_text(p, signs->count ? " (" : "") && append_signs(p, signs) &&
	          append_text(p, signs->count ? ") " : " ");
	for (struct children c = {.count = 0}; ok && next_child(p, &c, type);) {
		Dwarf_Attribute a;
		Dwarf_Word n;
		if (dwarf_tag(&c.die) != DW_TAG_subrange_type)
			continue;
		if (names_attribute(p->n, &c.die, DW_AT_count, &a) && dwarf_formudata(&a, &n) == 0)
			ok = buffer_printf(p->out, "[%" PRIu64 "]", (uint64_t)n);
		else if (names_attribute(p->n, &c.die, DW_AT_upper_bound, &a) && dwarf_formudata(&a, &n) == 0)
			ok = buffer_printf(p->out, "[%" PRIu64 "]", (uint64_t)n + 1);
		else
			ok = append_text(p, "[]");
	}
	return ok;
}

static bool append_named(struct printer *p, const Dwarf_Die *type)
{
	struct error e;
	Dwarf_Die copy = *type;
	struct str name = names_text(p->n, &copy, DW_AT_name);
	int tag = dwarf_tag(&copy);
	if (tag == DW_TAG_base_type)
		return name.len > 0 && append_text(p, base_name(name.data));
	if (tag == DW_TAG_unspecified_type)
		return name.len > 0 && buffer_append_str(p->out, name);
	if (!is_class(tag) && tag != DW_TAG_typedef)
		return false;
	enum err err = names_append_scopes(p->n, p->out, &copy, &e);
	p->n->no_memory |= err == ERR_NO_MEMORY;
	if (err)
		return false;
	if (name.len == 0)
		append_unnamed(p, &copy);
	else if (buffer_append_str(p->out, name))
		append_arguments(p, &copy);
	return !p->out->failed;
}

/* Appends the type that an entry has. */
static bool append_type(struct printer *p, const Dwarf_Die *of, bool parameter)
{
	Dwarf_Die type = *of;
	struct signs signs = {.count = 0};
	bool none = false, ok = p->depth < DEPTH_MAX && strip_signs(p, &type, parameter, &signs, &none);
	if (!ok)
		return false;
	p->depth++;
	int tag = none ? 0 : dwarf_tag(&type);
	if (tag == DW_TAG_subroutine_type)
		ok = append_function_type(p, &type, &signs);
	else if (tag == DW_TAG_array_type)
		ok = append_array(p, &type, &signs);
	else
		ok = (none ? append_text(p, "void") : append_named(p, &type)) && append_signs(p, &signs);
	p->depth--;
	return ok && !p->out->failed;
}

/* Whether a member function's object is const. */
static bool is_const(struct printer *p, const Dwarf_Die *self)
{
	Dwarf_Die type = *self;
	for (int i = 0; i < SIGNS_MAX && step_to_type(p, &type); i++) {
		int tag = dwarf_tag(&type);
		if (tag == DW_TAG_pointer_type)
			return step_to_type(p, &type) && dwarf_tag(&type) == DW_TAG_const_type;
		if (tag != DW_TAG_const_type)
			break;
	}
	return false;
}

/* ---- templates ---- */

static bool append_value(struct printer *p, Dwarf_Die *die)
{
	Dwarf_Die type = *die;
	struct signs signs = {.count = 0};
	Dwarf_Attribute a;
	Dwarf_Sword value;
	bool none;
	if (!names_attribute(p->n, die, DW_AT_const_value, &a) || dwarf_formsdata(&a, &value) != 0 ||
	        !strip_signs(p, &type, true, &signs, &none) || none || signs.count > 0)
		return false;
	struct str name = names_text(p->n, &type, DW_AT_name);
	const char *base = base_name(name.data);
	if (dwarf_tag(&type) == DW_TAG_base_type && strcmp(base, "bool") == 0)
		return append_text(p, value ? "true" : "false");
	static const char *const ends[][2] = {{"int", ""}, {"unsigned int", "u"}, {"long", "l"},
	        {"unsigned long", "ul"}, {"long long", "ll"}, {"unsigned long long", "ull"}};
	for (size_t i = 0; i < sizeof ends / sizeof *ends; i++)
		if (dwarf_tag(&type) == DW_TAG_base_type && strcmp(base, ends[i][0]) == 0)
			return buffer_printf(p->out, "%" PRId64 "%s", (int64_t)value, ends[i][1]);
	return append_text(p, "(") && append_named(p, &type) && buffer_printf(p->out, ")%" PRId64, (int64_t)value);
}

static bool append_each_argument(struct printer *p, const Dwarf_Die *die, bool *any)
{
	bool ok = true;
	for (struct children c = {.count = 0}; ok && next_child(p, &c, die);) {
		int tag = dwarf_tag(&c.die);
		if (tag == DW_TAG_GNU_template_parameter_pack && p->depth < DEPTH_MAX) {
			p->depth++;
			ok = append_each_argument(p, &c.die, any);
			p->depth--;
		}
		if (tag != DW_TAG_template_type_parameter && tag != DW_TAG_template_value_parameter)
			continue;
		ok = append_text(p, *any ? ", " : "<") &&
		     (tag == DW_TAG_template_type_parameter ? append_type(p, &c.die, false) : append_value(p, &c.die));
		*any = true;
	}
	return ok && p->steps < STEPS_MAX;
}

/* What could not be told whole. */
static void take_back(struct buffer *out, size_t before)
{
	out->len = before;
	out->failed = false; /* was full; if memory is lacking, that shows again */
}

static void append_arguments(struct printer *p, const Dwarf_Die *die)
{
	size_t before = p->out->len;
	bool any = false;
	if (before > 0 && p->out->data[before - 1] == '>')
		return;
	bool ok = append_each_argument(p, die, &any);
	if (!ok || (any && !append_text(p, p->out->data[p->out->len - 1] == '>' ? " >" : ">")))
		take_back(p->out, before);
}

/* Of a generic lambda, arguments of the template follow. */
static bool is_call(struct str name)
{
	static const char call[] = "operator()";
	return name.len >= sizeof call - 1 && memcmp(name.data, call, sizeof call - 1) == 0;
}

/* The class of a lambda has the function that is called. */
static void append_unnamed(struct printer *p, const Dwarf_Die *die)
{
	for (struct children c = {.count = 0}; next_child(p, &c, die);) {
		if (dwarf_tag(&c.die) != DW_TAG_subprogram || !is_artificial(p, &c.die) ||
		        !is_call(names_text(p->n, &c.die, DW_AT_name)))
			continue;
		append_text(p, "{lambda");
		size_t before = p->out->len;
		unsigned count = 0;
		if (!append_list(p, &c.die, NULL, &count) || !append_text(p, "}")) {
			take_back(p->out, before);
			append_text(p, "}");
		}
		return;
	}
	append_text(p, "{unnamed}");
}

void type_names_parameters(struct names *n, struct buffer *out, const Dwarf_Die *die)
{
	struct printer p = {.n = n, .out = out};
	Dwarf_Die self = {0};
	size_t before = out->len;
	unsigned count = 0;
	if (!append_list(&p, die, &self, &count) || count == 0 ||
	        (self.addr && is_const(&p, &self) && !append_text(&p, " const")))
		take_back(out, before);
}

void type_names_arguments(struct names *n, struct buffer *out, const Dwarf_Die *die)
{
	struct printer p = {.n = n, .out = out};
	append_arguments(&p, die);
}

void type_names_unnamed(struct names *n, struct buffer *out, const Dwarf_Die *die)
{
	struct printer p = {.n = n, .out = out};
	append_unnamed(&p, die);
}
