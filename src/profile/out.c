// SPDX-License-Identifier: MIT
// The stream that a profile is written to: in pieces, and in gzip's format if wanted (RFC
// 1952), with blocks that are stored as they are: a profile is small, and what compresses is large.
#include <stdarg.h>
#include <string.h>

#include "../base/fmt.h"
#include "profile.h"

static uint32_t crc_of(uint32_t crc, const uint8_t* data, size_t size) {
  static const uint32_t table[16] = {
      0x00000000, 0x1DB71064, 0x3B6E20C8, 0x26D930AC, 0x76DC4190, 0x6B6B51F4,
      0x4DB26158, 0x5005713C, 0xEDB88320, 0xF00F9344, 0xD6D6A3E8, 0xCB61B38C,
      0x9B64C2B0, 0x86D3D2D4, 0xA00AE278, 0xBDBDF21C};
  crc = ~crc;
  for (size_t i = 0; i < size; i++) {
    crc = table[(crc ^ data[i]) & 15] ^ crc >> 4;
    crc = table[(crc ^ data[i] >> 4) & 15] ^ crc >> 4;
  }
  return ~crc;
}

static void put_low_first(uint8_t* at, uint32_t value, size_t size) {
  for (size_t i = 0; i < size; i++) at[i] = (uint8_t)(value >> 8 * i);
}

// A stored block: whether it is the last one, its length, and that inverted.
static void write_piece(mx_prof_out_t* out, bool is_last) {
  if (out->zips && (out->length > 0 || is_last)) {
    uint8_t head[5] = {is_last};
    put_low_first(head + 1, (uint32_t)out->length, 2);
    put_low_first(head + 3, ~(uint32_t)out->length, 2);
    out->write(out->arg, (const char*)head, sizeof(head));
    out->crc = crc_of(out->crc, (const uint8_t*)out->buf, out->length);
  }
  if (out->length > 0) out->write(out->arg, out->buf, out->length);
  out->total += (uint32_t)out->length;
  out->length = 0;
}

void mx_prof_out_open(mx_prof_out_t* out, mx_prof_write_fn* write, void* arg, bool zips) {
  static const uint8_t head[10] = {0x1F, 0x8B, 8, 0, 0, 0, 0, 0, 0, 0xFF};
  out->write = write;
  out->arg = arg;
  out->zips = zips;
  out->crc = out->total = 0;
  out->length = 0;
  if (zips) write(arg, (const char*)head, sizeof(head));
}

void mx_prof_out_add(mx_prof_out_t* out, const void* data, size_t size) {
  const char* at = (const char*)data;
  while (size > 0) {
    const size_t part = mx_min(size, MX_PROF_PIECE - out->length);
    memcpy(out->buf + out->length, at, part);
    out->length += part;
    at += part;
    size -= part;
    if (out->length == MX_PROF_PIECE) write_piece(out, false);
  }
}

void mx_prof_out_print(mx_prof_out_t* out, const char* fmt, ...) {
  char line[256];
  mx_text_t text;
  va_list args;
  va_start(args, fmt);
  mx_text_init(&text, line, sizeof(line));
  mx_text_vadd(&text, fmt, args);
  va_end(args);
  mx_prof_out_add(out, line, text.length);
}

void mx_prof_out_close(mx_prof_out_t* out) {
  uint8_t tail[8];
  write_piece(out, true);
  if (!out->zips) return;
  put_low_first(tail, out->crc, 4);
  put_low_first(tail + 4, out->total, 4);
  out->write(out->arg, (const char*)tail, sizeof(tail));
}
