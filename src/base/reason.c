/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "base/reason.h"

static const struct reason_row rows[REASONS] = {
        [REASON_NONE] = {"", "", ""},
        [REASON_NO_MODULE] = {"no module", "The frame has an address, but nothing says which module it is in.",
                "If the text lacks the memory map of the process, add it; or give the module and an offset in it."},
        [REASON_NO_OFFSET] = {"no offset", "The frame has no offset.", "Give the offset in the module."},
        [REASON_NO_INTEGER] = {"no integer", "The offset is not an integer.", "Give it as an integer, 0 or more."},
        [REASON_NO_ID] = {"no id", "No debug id or build id is given for this module.",
                "Give one as --module NAME=ID or ?module=NAME=ID. symbtool file-id FILE or readelf -n FILE prints it."},
        [REASON_NOT_FOUND] = {"not found", "No source has symbols for this build of the module.",
                "Check the id, or add the symbols: symbtool push-symbols FILE."},
        [REASON_OTHER_BUILD] = {"other build", "The file with this module's name is from another build.",
                "Get the file of the build that crashed, or ask a server that has its symbols."},
        [REASON_STRIPPED] = {"stripped", "The module's file has no symbols here, or only those that a program exports.",
                "Use the unstripped file, or its debug or PDB file: --debug-file, --debug-dir."},
        [REASON_CORRUPT] = {"corrupt", "The file with the module's symbols cannot be used.",
                "Replace it; the detail says what is wrong."},
        [REASON_TOO_LARGE] = {"too large", "The module's symbols are larger than this server accepts.",
                "Ask the operator to raise the limit in the detail, or use symbtool without --url."},
        [REASON_BELOW_FIRST] = {"below first symbol", "The offset is below the module's first symbol.",
                "It must count from the start of the image in memory. A stripped file lacks most symbols."},
        [REASON_BETWEEN] = {"between symbols", "The offset lies between two symbols of the module.",
                "If there should be a function, the symbols are incomplete or from another build."},
        [REASON_ABOVE_LAST] = {"above last symbol", "The offset is above the module's last symbol.",
                "Check the offset: it must count from the start of the image in memory."},
        [REASON_WRONG_OFFSET] = {"wrong offset", "The offset is outside the module: it looks like an address.",
                "Subtract the address at which the module begins."},
        [REASON_NO_SEGMENTS] = {"no segments",
                "The offset counts from the start of the file, and nothing tells where that part is loaded.",
                "Push the executable itself with symbtool and give its build id, or give the file to symbtool."},
        [REASON_NOT_LOADED] = {"not loaded", "The offset counts from the start of the file, and no segment loads it.",
                "Check the offset and the id."},
        [REASON_NO_FUNCTION] = {"no function", "The offset is in no function of the module.",
                "Check the offset and the id."},
        [REASON_NO_ANSWER] = {"no answer", "The server did not answer.", "Try again later."},
};

const struct reason_row *reason_row(enum reason reason)
{
	return &rows[reason];
}

enum reason reason_of_word(struct str word)
{
	for (unsigned i = 1; i < REASONS; i++)
		if (str_equal(word, str_from(rows[i].word)))
			return (enum reason)i;
	return REASON_NONE;
}
