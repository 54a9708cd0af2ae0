// SPDX-License-Identifier: MIT
//! The global allocator: collections of every size and alignment, threads, what fails.
use std::alloc::{alloc, alloc_zeroed, dealloc, realloc, Layout};
use std::collections::{BTreeMap, HashMap};
use std::sync::mpsc;

use mimalloc::MiMalloc;

#[global_allocator]
static GLOBAL: MiMalloc = MiMalloc;

#[test]
fn the_program_uses_it() {
    let text = String::from("a text");
    assert!(mimalloc::contains(text.as_ptr()));
    assert_eq!(mimalloc::version() / 10_000, 3);
    assert!(mimalloc::good_size(100) >= 100);
    mimalloc::collect(true);
    assert!(mimalloc::stats_json().unwrap().contains("\"stat_version\""));
}

extern "C" {
    fn malloc(size: usize) -> *mut std::ffi::c_void;
    fn free(p: *mut std::ffi::c_void);
}

#[test]
fn malloc_is_overridden_when_asked_for() {
    unsafe {
        let p = malloc(100);
        assert_eq!(mimalloc::contains(p), cfg!(feature = "override"));
        free(p);
    }
}

#[test]
fn layouts_of_every_kind() {
    for shift in 0..21 {
        for size in [1, 7, 64, 1000, 70_000] {
            let layout = Layout::from_size_align(size, 1 << shift).unwrap();
            unsafe {
                let p = alloc(layout);
                assert!(!p.is_null() && p as usize % layout.align() == 0);
                p.write_bytes(3, size);
                let q = realloc(p, layout, size * 3);
                assert!(!q.is_null() && q as usize % layout.align() == 0);
                assert!((0..size).all(|i| *q.add(i) == 3));
                dealloc(
                    q,
                    Layout::from_size_align(size * 3, layout.align()).unwrap(),
                );
                let z = alloc_zeroed(layout);
                assert!((0..size).all(|i| *z.add(i) == 0) && z as usize % layout.align() == 0);
                dealloc(z, layout);
            }
        }
    }
}

#[test]
fn too_much_is_an_error() {
    let mut v: Vec<u8> = Vec::new();
    assert!(v.try_reserve(isize::MAX as usize - 100).is_err());
}

#[test]
fn blocks_wander_between_threads() {
    let (send, receive) = mpsc::channel::<HashMap<String, Vec<u32>>>();
    let makers: Vec<_> = (0..4)
        .map(|t| {
            let send = send.clone();
            std::thread::spawn(move || {
                for round in 0..50_u32 {
                    send.send(
                        (0..100)
                            .map(|i| (format!("{t} {i}"), vec![round; i]))
                            .collect(),
                    )
                    .unwrap();
                }
            })
        })
        .collect();
    drop(send);
    let mut lengths = BTreeMap::new();
    for map in receive {
        for (key, values) in map {
            *lengths.entry(key).or_insert(0) += values.len();
        }
    }
    for maker in makers {
        maker.join().unwrap();
    }
    assert_eq!(lengths.values().sum::<usize>(), 4 * 50 * 99 * 50);
}
