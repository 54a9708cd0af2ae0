// SPDX-License-Identifier: MIT
// Which beginnings of functions can be moved elsewhere, and what they become there.
#define MX_TEST_WINDOWS_CODE 1
#include "../../src/override/windows_code.c"

#include <stdio.h>

static int failures;

#define FROM ((uintptr_t)0x10000000)
#define TO ((uintptr_t)0x10010000)

typedef struct row_s {
  const char* what;
  uint8_t code[16];
  size_t taken;         // 0: unfamiliar
  uint8_t moved[16];    // what it becomes, up to the jump back
  size_t moved_length;
} row_t;

#if MX_64BIT
static const row_t rows[] = {
    {"pushes", {0x57, 0x56, 0x53, 0x48, 0x83, 0xEC, 0x20}, 7,
     {0x57, 0x56, 0x53, 0x48, 0x83, 0xEC, 0x20}, 7},
    {"push r12; sub", {0x41, 0x54, 0x48, 0x81, 0xEC, 0, 1, 0, 0}, 9,
     {0x41, 0x54, 0x48, 0x81, 0xEC, 0, 1, 0, 0}, 9},
    {"mov to the stack", {0x48, 0x89, 0x5C, 0x24, 0x08}, 5, {0x48, 0x89, 0x5C, 0x24, 0x08}, 5},
    {"mov eax, imm", {0xB8, 1, 2, 3, 4}, 5, {0xB8, 1, 2, 3, 4}, 5},
    {"mov rax, imm64", {0x48, 0xB8, 1, 2, 3, 4, 5, 6, 7, 8}, 10,
     {0x48, 0xB8, 1, 2, 3, 4, 5, 6, 7, 8}, 10},
    {"endbr64; xor", {0xF3, 0x0F, 0x1E, 0xFA, 0x31, 0xC0}, 6,
     {0xF3, 0x0F, 0x1E, 0xFA, 0x31, 0xC0}, 6},
    // je over 10 bytes is at 3, so it leads to 15.
    {"test; je", {0x48, 0x85, 0xC9, 0x74, 0x0A}, 5,
     {0x48, 0x85, 0xC9, 0x0F, 0x84, 0x06, 0x00, 0xFF, 0xFF}, 9},
    {"lea rax, [rip+0x100]", {0x48, 0x8D, 0x05, 0x00, 0x01, 0, 0}, 7,
     {0x48, 0x8D, 0x05, 0x00, 0x01, 0xFF, 0xFF}, 7},
    {"mov rcx, rdx; mov [rip], imm8", {0x48, 0x89, 0xD1, 0xC6, 0x05, 0, 0, 1, 0, 7}, 10,
     {0x48, 0x89, 0xD1, 0xC6, 0x05, 0, 0, 0, 0, 7}, 10},
    {"jmp", {0xE9, 0xFB, 0x0F, 0, 0}, 5, {0xE9, 0xFB, 0x0F, 0xFF, 0xFF}, 5},
    {"jmp short", {0xEB, 0x0E, 0xCC, 0xCC, 0xCC}, 2, {0xE9, 0x0B, 0x00, 0xFF, 0xFF}, 5},
    {"call", {0xE8, 0, 0, 0, 0}, 5, {0xE8, 0x00, 0x00, 0xFF, 0xFF}, 5},
    {"jmp [rip]", {0xFF, 0x25, 0, 0, 1, 0}, 6, {0xFF, 0x25, 0, 0, 0, 0}, 6},
    {"xor eax, eax; ret", {0x31, 0xC0, 0xC3, 0xCC, 0xCC}, 3, {0x31, 0xC0, 0xC3}, 3},
    {"a short function with another one behind", {0x31, 0xC0, 0xC3, 0x53, 0x56}, 0, {0}, 0},
    {"a jump to the second instruction", {0x48, 0x85, 0xC9, 0x75, 0xFE}, 0, {0}, 0},
    {"a jump to itself", {0xEB, 0xFE, 0xCC, 0xCC, 0xCC}, 0, {0}, 0},
    {"a vector extension", {0xC5, 0xF8, 0x77, 0x90, 0x90}, 0, {0}, 0},
    {"int3", {0xCC, 0xCC, 0xCC, 0xCC, 0xCC}, 0, {0}, 0},
    {"syscall", {0x4C, 0x8B, 0xD1, 0x0F, 0x05}, 0, {0}, 0},
};
#else
static const row_t rows[] = {
    {"frame", {0x55, 0x89, 0xE5, 0x83, 0xEC, 0x10}, 6, {0x55, 0x89, 0xE5, 0x83, 0xEC, 0x10}, 6},
    {"hot patch point", {0x8B, 0xFF, 0x55, 0x8B, 0xEC}, 5, {0x8B, 0xFF, 0x55, 0x8B, 0xEC}, 5},
    {"mov eax, [address]", {0x8B, 0x05, 1, 2, 3, 4}, 6, {0x8B, 0x05, 1, 2, 3, 4}, 6},
    {"int3", {0xCC, 0xCC, 0xCC, 0xCC, 0xCC}, 0, {0}, 0},
};
#endif

static void check_row(const row_t* row) {
  uint8_t out[MX_CODE_MOVED_MAX] = {0};
  const size_t taken = mx_code_move(row->code, FROM, out, TO);
  if (taken != row->taken) {
    printf("FAIL %s: %zu bytes were taken, not %zu\n", row->what, taken, row->taken);
    failures++;
  } else if (taken != 0 && memcmp(out, row->moved, row->moved_length) != 0) {
    printf("FAIL %s: became", row->what);
    for (size_t i = 0; i < row->moved_length; i++) printf(" %02x", out[i]);
    printf("\n");
    failures++;
  }
}

int main(void) {
  for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) check_row(&rows[i]);
  // Behind what was moved a jump leads back.
  uint8_t out[MX_CODE_MOVED_MAX];
  const uint8_t pushes[8] = {0x53, 0x53, 0x53, 0x53, 0x53};
  const uint8_t back[5] = {0xE9, 0xFB, 0xFF, 0xFE, 0xFF};
  if (mx_code_move(pushes, FROM, out, TO) != 5 || memcmp(out + 5, back, 5) != 0) {
    printf("FAIL the jump back\n");
    failures++;
  }
  if (MX_64BIT && mx_code_jump(out, FROM, FROM + ((uintptr_t)1 << (MX_64BIT ? 32 : 0)))) {
    printf("FAIL a jump that is too far\n");
    failures++;
  }
  if (failures == 0) printf("code: as expected\n");
  return failures != 0;
}
