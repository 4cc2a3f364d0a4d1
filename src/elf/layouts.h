/* SPDX-License-Identifier: Apache-2.0 */
/* Where the files of a build id are in a source, by the layouts that are in use. */
#ifndef ELF_LAYOUTS_H
#define ELF_LAYOUTS_H

#include "objects/bucket.h"
#include "symbfile/build_id.h"

/* What is wanted of a file. */
enum layout_use { LAYOUT_DEBUG, LAYOUT_CODE };

enum { LAYOUT_PATH_MAX = BUILD_ID_HEX + 64 };

/* The paths to ask for, the most useful first, by number from 0 on. False: there are no more. */
bool layout_path(char out[LAYOUT_PATH_MAX], enum bucket_kind kind, enum layout_use use, unsigned number,
        const struct build_id *id);

/* The same of a Windows program or its PDB file, as symbol servers have them: below its name, which is harmless, and
 * its id: the time stamp and the size of the image, four bytes each, big-endian; or a GUID and an age. */
enum { LAYOUT_NAME_MAX = 128, LAYOUT_NAMED_MAX = LAYOUT_PATH_MAX + 2 * LAYOUT_NAME_MAX };
bool layout_windows_path(char out[LAYOUT_NAMED_MAX], unsigned number, const char *name, const struct build_id *id);
/* Where symstore has the note that the file of this name and id is elsewhere. */
bool layout_pointer_path(char out[LAYOUT_NAMED_MAX], const char *name, const struct build_id *id);
/* The same in a folder of programs and their PDB files, by name alone: the file; then, of a PDB file that is not there,
 * the program. */
bool layout_flat_path(char out[LAYOUT_NAMED_MAX], unsigned number, const char *name, const struct build_id *id);
/* The same of the dSYM file of a Mach-O program; id: its UUID. name: of the program; "": not known. */
bool layout_mac_path(char out[LAYOUT_NAMED_MAX], unsigned number, const char *name, const struct build_id *id);
/* Whether it is a file's name of letters, digits, '.', '_', '+' and '-' only; then it is copied. */
bool layout_name(char out[LAYOUT_NAME_MAX], struct str name);

/* A file as debuggers ask servers for it: by its build id, or a Mach-O file's UUID (name is empty); or by its name and
 * what layout_windows_path has. */
struct layout_file {
	enum layout_use use;
	bool packed;                /* the cabinet in place of a named file */
	char name[LAYOUT_NAME_MAX]; /* a named file's */
	struct build_id id;
};
/* Where it may be, by number from 0 on: only what the id is in, and nothing else of that program. False: there are no
 * more. */
bool layout_file_path(char out[LAYOUT_NAMED_MAX], enum bucket_kind kind, unsigned number, const struct layout_file *f);
/* Where such a file is put: one of these. */
void layout_file_place(char out[LAYOUT_NAMED_MAX], const struct layout_file *f);
/* Reads a code id of Windows: eight hex digits of the time stamp, then the size of the image. */
bool layout_code_id(struct build_id *id, struct str hex);

/* The path of a file of shared entries (dwz -m) that no layout has by its build id, by the name in a link to it, which
 * may be of any bytes: what is behind its "/.dwz", as distributions have them. False: there is none. */
enum { LAYOUT_SHARED_MAX = 256 };
bool layout_shared_path(char out[LAYOUT_SHARED_MAX], enum bucket_kind kind, struct str name);

/* The path of the package of split units (.dwp) of the file at `path`, by number from 0 on. False: there are no more.
 */
bool layout_package_path(char out[LAYOUT_PATH_MAX], enum bucket_kind kind, unsigned number, const char *path);

/* The folders, by number from 0 on, of the build ids that begin with this byte. False: there are no more. */
bool layout_folder(char out[LAYOUT_PATH_MAX], enum bucket_kind kind, unsigned number, uint8_t first);
/* The build id whose file or folder has this name there; false: none. */
bool layout_entry(struct build_id *id, uint8_t first, const char *name);

#endif
