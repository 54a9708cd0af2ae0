// SPDX-License-Identifier: MIT
// The implementation of windows_code.h: lengths of instructions, and what in them depends on
// where they run. As the processors' manuals have it (Intel SDM, volume 2: instruction format).
#include "windows_code.h"

#include "override.h"

#if MX_OVERRIDE_WINDOWS || defined(MX_TEST_WINDOWS_CODE)

#include <string.h>

#define IS_64 (MX_64BIT != 0)

typedef enum kind_e { PLAIN, RELATIVE_8, RELATIVE_32, UNFAMILIAR } kind_t;

typedef struct instruction_s {
  kind_t kind;
  size_t length;
  size_t opcode;      // where its opcode is
  size_t rip_offset;  // where a displacement from the next instruction is; 0: none
  bool ends;          // nothing runs on behind it
} instruction_t;

// ---- reading -----------------------------------------------------------------------------------

// The bytes of a ModRM byte, what it brings along included.
static size_t operand_length(const uint8_t* p, bool* is_rip_relative) {
  const unsigned mod = p[0] >> 6, rm = p[0] & 7;
  size_t length = 1;
  *is_rip_relative = false;
  if (mod == 3) return length;
  if (rm == 4) {
    length++;
    if (mod == 0 && (p[1] & 7) == 5) length += 4;
  } else if (mod == 0 && rm == 5) {
    *is_rip_relative = IS_64;
    length += 4;
  }
  return length + (mod == 1 ? 1 : (mod == 2 ? 4 : 0));
}

// Opcodes of one byte with a ModRM byte: immediate bytes behind it, or -1 for other opcodes.
static int immediate_of(uint8_t opcode, uint8_t modrm) {
  if (opcode < 0x40 && (opcode & 7) < 4) return 0;    // add, or, adc, sbb, and, sub, xor, cmp
  if (opcode >= 0x84 && opcode <= 0x8B) return 0;     // test, xchg, mov
  switch (opcode) {
    case 0x63: return IS_64 ? 0 : -1;                 // movsxd
    case 0x69: return 4;                              // imul
    case 0x6B: return 1;
    case 0x80: case 0x83: case 0xC6: return 1;        // arithmetic, mov
    case 0x81: case 0xC7: return 4;
    case 0x8D: return 0;                              // lea
    case 0xC0: case 0xC1: return 1;                   // shifts
    case 0xD0: case 0xD1: case 0xD2: case 0xD3: return 0;
    case 0xF6: return (modrm & 0x38) <= 8 ? 1 : 0;    // test; not, neg, mul, div
    case 0xF7: return (modrm & 0x38) <= 8 ? 4 : 0;
    case 0xFE: case 0xFF: return 0;                   // inc, dec, push; calls and jumps: see below
    default: return -1;
  }
}

// Opcodes of two bytes with a ModRM byte and nothing behind.
static bool is_known_0f(uint8_t opcode) {
  return opcode == 0x10 || opcode == 0x11 || opcode == 0x1E || opcode == 0x1F ||  // movups, nop
         opcode == 0x28 || opcode == 0x29 || opcode == 0x57 || opcode == 0xAF ||  // movaps, xorps
         opcode == 0xEF || opcode == 0x6E || opcode == 0x7E || opcode == 0x6F || opcode == 0x7F ||
         (opcode & 0xF0) == 0x40 || (opcode & 0xF0) == 0x90 ||                    // cmov, set
         (opcode & 0xF6) == 0xB6;                                                 // movzx, movsx
}

static void finish(instruction_t* in, const uint8_t* p, size_t at, size_t immediate) {
  bool is_rip_relative;
  const size_t length = operand_length(p + at, &is_rip_relative);
  if (is_rip_relative) in->rip_offset = at + 1;
  in->length = at + length + immediate;
  in->kind = PLAIN;
}

static void read_0f(instruction_t* in, const uint8_t* p, size_t at) {
  const uint8_t opcode = p[at + 1];
  if ((opcode & 0xF0) == 0x80) {  // conditional jumps
    in->kind = RELATIVE_32;
    in->length = at + 6;
  } else if (is_known_0f(opcode)) {
    finish(in, p, at + 2, 0);
  }
}

static void set(instruction_t* in, kind_t kind, size_t length, bool ends) {
  in->kind = kind;
  in->length = length;
  in->ends = ends;
}

// Opcodes without a ModRM byte. `wide`: operands have 64 bits; `narrow`: 16.
static void read_simple(instruction_t* in, const uint8_t* p, size_t at, bool wide, bool narrow) {
  const uint8_t opcode = p[at];
  const size_t immediate = (narrow ? 2 : 4);
  if (opcode >= 0x50 && opcode <= 0x5F) set(in, PLAIN, at + 1, false);  // push, pop
  else if (!IS_64 && (opcode & 0xF0) == 0x40) set(in, PLAIN, at + 1, false);
  else if (opcode < 0x40 && (opcode & 7) == 4) set(in, PLAIN, at + 2, false);
  else if (opcode < 0x40 && (opcode & 7) == 5) set(in, PLAIN, at + 1 + immediate, false);
  else if ((opcode & 0xF0) == 0x70) set(in, RELATIVE_8, at + 2, false);
  else if ((opcode & 0xF8) == 0xB0) set(in, PLAIN, at + 2, false);
  else if ((opcode & 0xF8) == 0xB8) set(in, PLAIN, at + 1 + (wide ? 8 : immediate), false);
  else if (opcode == 0x68) set(in, PLAIN, at + 5, false);
  else if (opcode == 0x6A || opcode == 0xA8) set(in, PLAIN, at + 2, false);
  else if (opcode == 0xA9) set(in, PLAIN, at + 1 + immediate, false);
  else if (opcode == 0x90) set(in, PLAIN, at + 1, false);
  else if (opcode == 0xC3) set(in, PLAIN, at + 1, true);
  else if (opcode == 0xE8) set(in, RELATIVE_32, at + 5, false);
  else if (opcode == 0xE9) set(in, RELATIVE_32, at + 5, true);
  else if (opcode == 0xEB) set(in, RELATIVE_8, at + 2, true);
}

static instruction_t read_instruction(const uint8_t* p) {
  instruction_t in = {UNFAMILIAR, 0, 0, 0, false};
  size_t at = 0;
  bool narrow = false, wide = false;
  for (; p[at] == 0x66 || p[at] == 0xF2 || p[at] == 0xF3; at++) {
    narrow = (narrow || p[at] == 0x66);
    if (at == 3) return in;
  }
  if (IS_64 && (p[at] & 0xF0) == 0x40) wide = (p[at++] & 8) != 0;
  in.opcode = at;
  if (p[at] == 0x0F) {
    read_0f(&in, p, at);
    return in;
  }
  const int immediate = immediate_of(p[at], p[at + 1]);
  if (immediate < 0) {
    read_simple(&in, p, at, wide, narrow);
    return in;
  }
  const unsigned operation = (p[at + 1] >> 3) & 7;
  if (p[at] == 0xFF && (operation == 3 || operation == 5 || operation == 7)) return in;
  in.ends = (p[at] == 0xFF && operation == 4);
  finish(&in, p, at + 1, narrow && immediate == 4 ? 2 : (size_t)immediate);
  return in;
}

// ---- writing -----------------------------------------------------------------------------------

static int32_t read_32(const uint8_t* p) {
  int32_t value;
  memcpy(&value, p, sizeof(value));
  return value;
}

// A distance from `from`, the end of an instruction.
static bool write_distance(uint8_t* out, uintptr_t from, uintptr_t target) {
  const intptr_t distance = (intptr_t)(target - from);
  const int32_t value = (int32_t)distance;
  if (IS_64 && distance != (intptr_t)value) return false;
  memcpy(out, &value, sizeof(value));
  return true;
}

bool mx_code_jump(uint8_t* out, uintptr_t at, uintptr_t target) {
  out[0] = 0xE9;
  return write_distance(out + 1, at + 5, target);
}

// A jump or call gets a distance of 32 bits, whatever it had. How many bytes; 0: out of reach.
static size_t move_branch(const uint8_t* p, const instruction_t* in, uintptr_t target,
                          uint8_t* out, uintptr_t to) {
  const uint8_t opcode = p[in->opcode];
  size_t n = 0;
  if (opcode == 0x0F || (opcode & 0xF0) == 0x70) {
    out[n++] = 0x0F;
    out[n++] = (uint8_t)(0x80 | ((opcode == 0x0F ? p[in->opcode + 1] : opcode) & 15));
  } else {
    out[n++] = (opcode == 0xE8 ? 0xE8 : 0xE9);
  }
  return write_distance(out + n, to + n + 4, target) ? n + 4 : 0;
}

static size_t move_one(const uint8_t* p, const instruction_t* in, uintptr_t from, uint8_t* out,
                       uintptr_t to) {
  const uintptr_t next = from + in->length;
  if (in->kind == PLAIN) {
    memcpy(out, p, in->length);
    if (in->rip_offset == 0) return in->length;
    const uintptr_t target = next + (uintptr_t)(intptr_t)read_32(p + in->rip_offset);
    return write_distance(out + in->rip_offset, to + in->length, target) ? in->length : 0;
  }
  const intptr_t distance =
      (in->kind == RELATIVE_8 ? (intptr_t)(int8_t)p[in->length - 1] : read_32(p + in->length - 4));
  return move_branch(p, in, next + (uintptr_t)distance, out, to);
}

// Whether a branch leads into the bytes that are overwritten.
static bool leads_inside(const uint8_t* p, const instruction_t* in, size_t at) {
  if (in->kind == PLAIN) return false;
  const intptr_t distance =
      (in->kind == RELATIVE_8 ? (intptr_t)(int8_t)p[in->length - 1] : read_32(p + in->length - 4));
  const intptr_t target = (intptr_t)(at + in->length) + distance;
  return target >= 0 && target < (intptr_t)MX_CODE_PATCH;
}

static bool is_padding(const uint8_t* from, size_t taken) {
  for (size_t i = taken; i < MX_CODE_PATCH; i++) {
    if (from[i] != 0xCC && from[i] != 0x90) return false;
  }
  return true;
}

size_t mx_code_move(const uint8_t* from, uintptr_t from_address, uint8_t* out, uintptr_t to) {
  size_t taken = 0, written = 0;
  while (taken < MX_CODE_PATCH) {
    const instruction_t in = read_instruction(from + taken);
    if (in.kind == UNFAMILIAR || leads_inside(from + taken, &in, taken)) return 0;
    const size_t n =
        move_one(from + taken, &in, from_address + taken, out + written, to + written);
    if (n == 0) return 0;
    taken += in.length;
    written += n;
    // A function may be shorter than a jump, if nothing else begins within it.
    if (in.ends) return taken >= MX_CODE_PATCH || is_padding(from, taken) ? taken : 0;
  }
  return mx_code_jump(out + written, to + written, from_address + taken) ? taken : 0;
}

#endif
