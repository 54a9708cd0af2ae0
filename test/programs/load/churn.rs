// SPDX-License-Identifier: MIT
// Rust's standard containers, whose allocator is malloc, in threads that hand blocks to each other.
use std::collections::{BTreeMap, HashMap};
use std::sync::mpsc;
use std::thread;

fn main() {
    let (sender, receiver) = mpsc::channel::<Vec<String>>();
    let makers: Vec<_> = (0..4u64)
        .map(|k| {
            let sender = sender.clone();
            thread::spawn(move || {
                for round in 0..200u64 {
                    let words = (0..100u64)
                        .map(|i| format!("{}-{}", k, "x".repeat(((i * round) % 90) as usize)))
                        .collect();
                    sender.send(words).unwrap();
                }
            })
        })
        .collect();
    drop(sender);
    let mut lengths: BTreeMap<usize, u64> = BTreeMap::new();
    for words in receiver {
        for word in words {
            *lengths.entry(word.len()).or_default() += 1;
        }
    }
    makers.into_iter().for_each(|m| m.join().unwrap());
    let mut table: HashMap<u64, Box<[u64]>> = HashMap::new();
    for i in 0..200_000u64 {
        table.insert(i * 7919 % 50021, vec![i; (i % 40) as usize].into_boxed_slice());
    }
    let total: u64 = table.values().map(|v| v.iter().sum::<u64>() % 1009).sum();
    println!("{} {:?} {} {}", lengths.len(), lengths.iter().next_back(), table.len(), total);
}
