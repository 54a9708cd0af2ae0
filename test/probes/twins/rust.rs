// SPDX-License-Identifier: MIT
//! Misuse by unsafe Rust, on the global allocator of a program that does not choose one. It says what
//! `twin.h` describes.
use std::hint::black_box;
use std::io::Write;

type Run = fn(usize, bool);

fn say(line: &str) {
    let mut out = std::io::stdout();
    let _ = writeln!(out, "{line}");
    let _ = out.flush();
}

fn many(size: usize) -> usize {
    if size >= 1 << 20 {
        4
    } else {
        64
    }
}

fn furnish() -> Vec<Vec<u8>> {
    (0..400usize).map(|i| vec![0x5a; 16 + i * 37 % 5000]).collect()
}

fn cycle(size: usize) {
    for _ in 0..64 {
        let held: Vec<Vec<u8>> = (0..many(size)).map(|_| Vec::with_capacity(size)).collect();
        black_box(held);
    }
}

fn finish(size: usize) {
    say("done");
    cycle(size);
    say("after reuse");
}

/// A write that leaves what stood there would be none.
fn change(p: *mut u8) {
    unsafe { p.write_volatile(p.read_volatile() ^ 0x42) };
}

fn write_past(size: usize, by: usize) {
    let mut v = vec![0x41u8; size];
    let p = black_box(v.as_mut_ptr());
    say("ready");
    for i in 0..size + by {
        change(unsafe { p.add(i) });
    }
    say("done");
    drop(v);
    say("after drop");
}

fn write_before(size: usize, by: usize) {
    let mut v = vec![0x41u8; size];
    let p = black_box(v.as_mut_ptr());
    say("ready");
    for i in 1..=by {
        change(unsafe { p.sub(i) });
    }
    say("done");
    drop(v);
    say("after drop");
}

fn over_1(size: usize, wrong: bool) {
    write_past(size, wrong as usize);
}

fn over_32(size: usize, wrong: bool) {
    write_past(size, if wrong { 32 } else { 0 });
}

fn under_8(size: usize, wrong: bool) {
    write_before(size, if wrong { 8 } else { 0 });
}

fn write_dropped(size: usize, wrong: bool) {
    let mut v = vec![0x41u8; size];
    let p = black_box(v.as_mut_ptr());
    let kept = if wrong { drop(v); None } else { Some(v) };
    say("ready");
    unsafe { p.add(size / 16 * 8).cast::<u64>().write_volatile(0x4343434343434343) };
    say("done");
    drop(kept);
    cycle(size);
    say("after reuse");
}

fn read_dropped(size: usize, wrong: bool) {
    let mut v = vec![0x7eu8; size];
    let p = black_box(v.as_mut_ptr());
    if !wrong {
        v.fill(0);
    }
    let kept = if wrong { drop(v); None } else { Some(v) };
    say("ready");
    let found = (16..size - 4).any(|i| {
        (0..4).all(|k| unsafe { p.add(i + k).read_volatile() } == 0x7e)
    });
    if wrong && !found {
        say("gone the contents are gone");
    }
    say("done");
    drop(kept);
}

fn drop_twice(size: usize, wrong: bool) {
    let mut v = vec![0x41u8; size];
    let p = black_box(v.as_mut_ptr());
    drop(v);
    for _ in 0..50 {
        black_box(vec![0u8; size]);
    }
    say("ready");
    if wrong {
        drop(unsafe { Vec::from_raw_parts(p, size, size) });
    }
    finish(size);
}

fn drop_part(size: usize, wrong: bool) {
    let mut v = vec![0x41u8; size];
    let p = black_box(v.as_mut_ptr());
    say("ready");
    if wrong {
        std::mem::forget(v);
        drop(unsafe { Vec::from_raw_parts(p.add(8), size - 8, size - 8) });
    } else {
        drop(v);
    }
    finish(size);
}

fn drop_stack(size: usize, wrong: bool) {
    let mut place = [0u64; 512];
    let p = black_box(unsafe { place.as_mut_ptr().cast::<u8>().add(1024) });
    say("ready");
    if wrong {
        drop(unsafe { Vec::from_raw_parts(p, 64, 64) });
    }
    finish(size);
}

fn address_again(size: usize, wrong: bool) {
    let v: Vec<u8> = Vec::with_capacity(size);
    let p = v.as_ptr();
    let kept = if wrong { drop(v); None } else { Some(v) };
    say("ready");
    let next: Vec<Vec<u8>> = (0..8).map(|_| Vec::with_capacity(size)).collect();
    if next.iter().any(|n| n.as_ptr() == p) {
        say("done");
    } else if wrong {
        say("gone the address was not used again");
    }
    black_box(kept);
}

const SIZES: &str = "24,4000,200000,8388608";
const ENDS: &str = "Rust: writes past an end or before a start, then the drop";
const STALE: &str = "Rust: a dropped vector written, read, its address used again";
const DROPS: &str = "Rust: drops of what is no block";

const CASES: &[(&str, &str, &str, Run)] = &[
    ("rust-over-1", ENDS, "1 byte past the end", over_1),
    ("rust-over-32", ENDS, "32 bytes past the end", over_32),
    ("rust-under-8", ENDS, "8 bytes before the start", under_8),
    ("rust-write-dropped", STALE, "8 bytes in the middle written", write_dropped),
    ("rust-read-dropped", STALE, "the contents read", read_dropped),
    ("rust-address-again", STALE, "one of the next eight vectors has its address", address_again),
    ("rust-drop-twice", DROPS, "dropped before, 50 others between", drop_twice),
    ("rust-drop-part", DROPS, "a vector made of the inside of another", drop_part),
    ("rust-drop-stack", DROPS, "a vector made of an array on the stack", drop_stack),
];

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    if arguments.len() == 2 {
        for (name, row, about, _) in CASES {
            println!("{name}\t{row}\t{about}\t{SIZES}");
        }
        return;
    }
    let kept = furnish();
    let (_, _, _, run) = CASES.iter().find(|case| case.0 == arguments[1]).expect("a case");
    run(arguments[2].parse().expect("a size"), arguments[3] == "wrong");
    say("end");
    black_box(kept);
}
