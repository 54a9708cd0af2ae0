// SPDX-License-Identifier: MIT
// minject adds mimalloc.dll to the import table of a Windows program, so that the loader loads it
// with the program, before all other DLLs, and its allocation calls are redirected. It takes it out
// again, after which the file is the same as before, byte by byte. It runs on Windows and elsewhere.
//
// The new import table stands in a section of its own at the end of the file, beside a note of what
// the headers said before. Nothing else in the file is changed; a signature is no longer named by
// the headers, as it would not be true of the new file. Files are of the PE format (Microsoft,
// "PE Format", docs), of 32 or 64 bits.
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SECTION_NAME ".minject"
#define SECTION_HEADER_SIZE 40
#define DESCRIPTOR_SIZE 20
#define IMPORTED_NAME "mi_version"
#define DIRECTORY_IMPORT 1
#define DIRECTORY_SECURITY 4
#define DIRECTORY_BOUND 11
#define READ_WRITE_DATA 0xC0000040u
#define FILE_SIZE_MAX 0x7FFFFFFFu
#define ROOM 4096  // for all that the new section holds but the old descriptors

static const char magic[8] = {'m', 'i', 'n', 'j', 'e', 'c', 't', '1'};

// What the headers said before, as it stands at the start of the new section.
typedef struct note_s {
  char magic[8];
  uint32_t file_size, image_size, sections;
  uint32_t import[2], security[2], bound[2];
} note_t;

typedef struct image_s {
  uint8_t* bytes;
  size_t size;         // of the file
  size_t pe;           // where the PE header is
  size_t optional;     // the optional header
  size_t directories;  // the data directories
  size_t directory_count;
  size_t section_table;
  size_t section_count;
  bool is_64;
} image_t;

static const char* program_name = "minject";

static bool complain(const char* file, const char* what) {
  fprintf(stderr, "%s: %s: %s\n", program_name, file, what);
  return false;
}

// ---- numbers in the file -----------------------------------------------------------------------

static uint32_t get16(const image_t* image, size_t at) {
  return at + 2 > image->size ? 0 : image->bytes[at] | (uint32_t)image->bytes[at + 1] << 8;
}

static uint32_t get32(const image_t* image, size_t at) {
  return at + 4 > image->size ? 0 : get16(image, at) | get16(image, at + 2) << 16;
}

static void put16(image_t* image, size_t at, uint32_t value) {
  image->bytes[at] = (uint8_t)value;
  image->bytes[at + 1] = (uint8_t)(value >> 8);
}

static void put32(image_t* image, size_t at, uint32_t value) {
  put16(image, at, value);
  put16(image, at + 2, value >> 16);
}

static uint32_t align_up(uint32_t value, uint32_t align) {
  return align == 0 ? value : (value + align - 1) / align * align;
}

// ---- the headers -------------------------------------------------------------------------------

static bool read_headers(image_t* image, const char* file) {
  image->pe = get32(image, 0x3C);
  if (get16(image, 0) != 0x5A4D || image->pe > image->size || get32(image, image->pe) != 0x4550) {
    return complain(file, "is no program for Windows");
  }
  image->optional = image->pe + 24;
  const uint32_t kind = get16(image, image->optional);
  if (kind != 0x10B && kind != 0x20B) return complain(file, "is of an unknown format");
  image->is_64 = (kind == 0x20B);
  image->directories = image->optional + (image->is_64 ? 112 : 96);
  image->directory_count = get32(image, image->directories - 4);
  image->section_count = get16(image, image->pe + 6);
  image->section_table = image->optional + get16(image, image->pe + 20);
  const size_t end = image->section_table + image->section_count * SECTION_HEADER_SIZE;
  if (image->directory_count <= DIRECTORY_IMPORT || end > image->size) {
    return complain(file, "has no import table, or damaged headers");
  }
  return true;
}

static size_t section_at(const image_t* image, size_t index) {
  return image->section_table + index * SECTION_HEADER_SIZE;
}

// Where in the file an address of the image is; 0 when nowhere.
static size_t to_offset(const image_t* image, uint32_t rva) {
  for (size_t i = 0; i < image->section_count; i++) {
    const size_t s = section_at(image, i);
    const uint32_t start = get32(image, s + 12), size = get32(image, s + 16);
    if (rva >= start && rva - start < size) return get32(image, s + 20) + (rva - start);
  }
  return 0;
}

static size_t directory_at(const image_t* image, size_t index) {
  return image->directories + 8 * index;
}

static uint32_t get_directory(const image_t* image, size_t index, size_t half) {
  return index < image->directory_count ? get32(image, directory_at(image, index) + 4 * half) : 0;
}

static void put_directory(image_t* image, size_t index, uint32_t rva, uint32_t size) {
  if (index >= image->directory_count) return;
  put32(image, directory_at(image, index), rva);
  put32(image, directory_at(image, index) + 4, size);
}

// The note of the last section, if that is ours.
static bool find_note(const image_t* image, note_t* note) {
  if (image->section_count == 0) return false;
  const size_t s = section_at(image, image->section_count - 1);
  if (memcmp(image->bytes + s, SECTION_NAME, 8) != 0) return false;
  const size_t at = get32(image, s + 20);
  if (at + sizeof(*note) > image->size) return false;
  memcpy(note->magic, image->bytes + at, 8);
  if (memcmp(note->magic, magic, sizeof(magic)) != 0) return false;
  uint32_t* const fields[] = {&note->file_size, &note->image_size,  &note->sections,
                              &note->import[0], &note->import[1],   &note->security[0],
                              &note->security[1], &note->bound[0],  &note->bound[1]};
  for (size_t i = 0; i < 9; i++) *fields[i] = get32(image, at + 8 + 4 * i);
  return true;
}

// The name of an imported DLL, or NULL behind the last one.
static const char* import_name(const image_t* image, size_t table, size_t index) {
  const uint32_t rva = get32(image, table + index * DESCRIPTOR_SIZE + 12);
  const size_t at = (rva == 0 ? 0 : to_offset(image, rva));
  if (at == 0 || at >= image->size) return NULL;
  return memchr(image->bytes + at, 0, image->size - at) != NULL ? (char*)image->bytes + at : NULL;
}

static size_t count_imports(const image_t* image, size_t table) {
  size_t n = 0;
  while (n < 4096 && import_name(image, table, n) != NULL) n++;
  return n;
}

// ---- adding ------------------------------------------------------------------------------------

static bool has_room_for_header(const image_t* image) {
  const size_t at = section_at(image, image->section_count);
  if (at + SECTION_HEADER_SIZE > get32(image, image->optional + 60)) return false;
  for (size_t i = 0; i < SECTION_HEADER_SIZE; i++) {
    if (image->bytes[at + i] != 0) return false;
  }
  return true;
}

static void write_header(image_t* image, uint32_t rva, uint32_t size, uint32_t offset,
                         uint32_t raw_size) {
  const size_t at = section_at(image, image->section_count);
  memcpy(image->bytes + at, SECTION_NAME, 8);
  put32(image, at + 8, size);
  put32(image, at + 12, rva);
  put32(image, at + 16, raw_size);
  put32(image, at + 20, offset);
  put32(image, at + 36, READ_WRITE_DATA);
  image->section_count++;
  put16(image, image->pe + 6, (uint32_t)image->section_count);
  put32(image, image->optional + 56,
        align_up(rva + size, get32(image, image->optional + 32)));
}

static void write_note(image_t* image, size_t at) {
  memcpy(image->bytes + at, magic, sizeof(magic));
  const uint32_t fields[] = {(uint32_t)image->size,
                             get32(image, image->optional + 56),
                             (uint32_t)image->section_count,
                             get_directory(image, DIRECTORY_IMPORT, 0),
                             get_directory(image, DIRECTORY_IMPORT, 1),
                             get_directory(image, DIRECTORY_SECURITY, 0),
                             get_directory(image, DIRECTORY_SECURITY, 1),
                             get_directory(image, DIRECTORY_BOUND, 0),
                             get_directory(image, DIRECTORY_BOUND, 1)};
  for (size_t i = 0; i < 9; i++) put32(image, at + sizeof(magic) + 4 * i, fields[i]);
}

// In the section: the note, two tables of one thunk and an end, the names, then the descriptors.
static uint32_t write_tables(image_t* image, size_t at, uint32_t rva, const char* dll,
                             size_t old_table, size_t old_count) {
  const uint32_t thunk = (image->is_64 ? 8 : 4);
  const uint32_t lookup = 64, address = lookup + 2 * thunk, hint = address + 2 * thunk;
  const uint32_t name = align_up(hint + 2 + (uint32_t)sizeof(IMPORTED_NAME), 4);
  const uint32_t table = align_up(name + (uint32_t)strlen(dll) + 1, 8);
  put32(image, at + lookup, rva + hint);
  put32(image, at + address, rva + hint);
  memcpy(image->bytes + at + hint + 2, IMPORTED_NAME, sizeof(IMPORTED_NAME));
  memcpy(image->bytes + at + name, dll, strlen(dll) + 1);
  put32(image, at + table, rva + lookup);
  put32(image, at + table + 12, rva + name);
  put32(image, at + table + 16, rva + address);
  memcpy(image->bytes + at + table + DESCRIPTOR_SIZE, image->bytes + old_table,
         old_count * DESCRIPTOR_SIZE);
  return table;
}

static bool add(image_t* image, const char* file, const char* dll) {
  note_t note;
  const size_t old_table = to_offset(image, get_directory(image, DIRECTORY_IMPORT, 0));
  if (find_note(image, &note)) return complain(file, "has it already");
  if (old_table == 0) return complain(file, "imports nothing");
  if (!has_room_for_header(image)) return complain(file, "has no room for another section");
  const size_t old_count = count_imports(image, old_table);
  const size_t table_bytes = (old_count + 2) * DESCRIPTOR_SIZE;
  if (old_table + old_count * DESCRIPTOR_SIZE > image->size || strlen(dll) > ROOM / 2) {
    return complain(file, "has a damaged import table");
  }
  const uint32_t file_align = get32(image, image->optional + 36);
  const uint32_t size = ROOM + (uint32_t)table_bytes;
  const uint32_t raw_size = align_up(size, file_align);
  const uint32_t offset = align_up((uint32_t)image->size, file_align);
  const uint32_t rva = get32(image, image->optional + 56);
  uint8_t* const grown = (uint8_t*)realloc(image->bytes, (size_t)offset + raw_size);
  if (grown == NULL) return complain(file, "is too large");
  memset(grown + image->size, 0, (size_t)offset + raw_size - image->size);
  image->bytes = grown;
  const size_t before = image->size;
  image->size = (size_t)offset + raw_size;
  write_note(image, offset);
  put32(image, offset + sizeof(magic), (uint32_t)before);
  const uint32_t table = write_tables(image, offset, rva, dll, old_table, old_count);
  write_header(image, rva, size, offset, raw_size);
  put_directory(image, DIRECTORY_IMPORT, rva + table, (uint32_t)table_bytes);
  put_directory(image, DIRECTORY_SECURITY, 0, 0);
  put_directory(image, DIRECTORY_BOUND, 0, 0);
  return true;
}

// ---- taking out --------------------------------------------------------------------------------

static bool take_out(image_t* image, const char* file) {
  note_t note;
  if (!find_note(image, &note)) return complain(file, "has nothing to take out");
  if (note.file_size > image->size || note.sections + 1 != image->section_count) {
    return complain(file, "was changed since");
  }
  put_directory(image, DIRECTORY_IMPORT, note.import[0], note.import[1]);
  put_directory(image, DIRECTORY_SECURITY, note.security[0], note.security[1]);
  put_directory(image, DIRECTORY_BOUND, note.bound[0], note.bound[1]);
  put32(image, image->optional + 56, note.image_size);
  put16(image, image->pe + 6, note.sections);
  memset(image->bytes + section_at(image, note.sections), 0, SECTION_HEADER_SIZE);
  image->size = note.file_size;
  return true;
}

static void list(const image_t* image) {
  const size_t table = to_offset(image, get_directory(image, DIRECTORY_IMPORT, 0));
  const size_t count = (table == 0 ? 0 : count_imports(image, table));
  for (size_t i = 0; i < count; i++) printf("%s\n", import_name(image, table, i));
}

// ---- files -------------------------------------------------------------------------------------

static bool read_file(image_t* image, const char* file) {
  FILE* const stream = fopen(file, "rb");
  if (stream == NULL) return complain(file, "cannot be read");
  fseek(stream, 0, SEEK_END);
  const long size = ftell(stream);
  rewind(stream);
  if (size < 64 || (unsigned long)size > FILE_SIZE_MAX) {
    fclose(stream);
    return complain(file, "is no program for Windows");
  }
  image->size = (size_t)size;
  image->bytes = (uint8_t*)malloc(image->size);
  const bool ok = image->bytes != NULL &&
                  fread(image->bytes, 1, image->size, stream) == image->size;
  fclose(stream);
  return ok ? true : complain(file, "cannot be read");
}

static bool write_file(const image_t* image, const char* file) {
  FILE* const stream = fopen(file, "wb");
  if (stream == NULL) return complain(file, "cannot be written");
  const bool ok = fwrite(image->bytes, 1, image->size, stream) == image->size;
  return (fclose(stream) == 0 && ok) ? true : complain(file, "cannot be written");
}

// program.exe becomes program-mi.exe.
static char* beside(const char* file) {
  const size_t length = strlen(file);
  size_t dot = length;
  for (size_t i = length; i > 0 && file[i - 1] != '/' && file[i - 1] != '\\'; i--) {
    if (file[i - 1] == '.') {
      dot = i - 1;
      break;
    }
  }
  char* const name = (char*)malloc(length + 4);
  if (name == NULL) return NULL;
  memcpy(name, file, dot);
  memcpy(name + dot, "-mi", 3);
  memcpy(name + dot + 3, file + dot, length - dot + 1);
  return name;
}

// ---- the command line --------------------------------------------------------------------------

static int usage(void) {
  fprintf(stderr,
          "usage: minject [OPTION]... PROGRAM [OUTPUT]\n"
          "Adds mimalloc.dll to the DLLs that a Windows program loads, before all others, and\n"
          "writes the result to OUTPUT, by default to the program's name with -mi added.\n"
          "mimalloc.dll must be where the program finds it: beside it, or in the PATH.\n"
          "  -i, --inplace   write to the program itself\n"
          "  -r, --remove    take it out again: the file is then as it was, byte by byte\n"
          "  -l, --list      print the DLLs that the program names, and change nothing\n"
          "  -d, --dll NAME  another name of the DLL\n");
  return 2;
}

static bool is_option(const char* given, const char* brief, const char* full) {
  return strcmp(given, brief) == 0 || strcmp(given, full) == 0;
}

int main(int argc, char** argv) {
  const char *file = NULL, *output = NULL, *dll = "mimalloc.dll";
  bool inplace = false, removes = false, lists = false;
  for (int i = 1; i < argc; i++) {
    if (is_option(argv[i], "-i", "--inplace")) inplace = true;
    else if (is_option(argv[i], "-r", "--remove")) removes = true;
    else if (is_option(argv[i], "-l", "--list")) lists = true;
    else if (is_option(argv[i], "-d", "--dll") && i + 1 < argc) dll = argv[++i];
    else if (argv[i][0] == '-' || output != NULL) return usage();
    else if (file == NULL) file = argv[i];
    else output = argv[i];
  }
  if (file == NULL || (inplace && output != NULL)) return usage();
  image_t image;
  memset(&image, 0, sizeof(image));
  if (!read_file(&image, file) || !read_headers(&image, file)) return 1;
  if (lists) {
    list(&image);
    free(image.bytes);
    return 0;
  }
  if (!(removes ? take_out(&image, file) : add(&image, file, dll))) return 1;
  char* const other = (inplace || output != NULL ? NULL : beside(file));
  if (inplace) output = file;
  if (other != NULL) output = other;
  const bool ok = (output != NULL && write_file(&image, output));
  free(other);
  free(image.bytes);
  return ok ? 0 : 1;
}
