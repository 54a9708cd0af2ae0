// SPDX-License-Identifier: MIT
// As keep.c, by boxes.
#[inline(never)]
fn keep_most(kept: &mut Vec<Vec<u8>>) {
    for _ in 0..3072 {
        kept.push(Vec::with_capacity(16384)); // most
    }
}

#[inline(never)]
fn keep_rest(kept: &mut Vec<Vec<u8>>) {
    for _ in 3072..4096 {
        kept.push(Vec::with_capacity(16384)); // rest
    }
}

fn main() {
    let mut kept = Vec::with_capacity(4096);
    keep_most(&mut kept);
    keep_rest(&mut kept);
    std::mem::forget(kept);
}
