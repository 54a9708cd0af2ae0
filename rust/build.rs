// SPDX-License-Identifier: MIT
//! Compiles the C core, which is one source file that includes the others.
use std::env;
use std::path::Path;

fn main() {
    let crate_dir = env::var("CARGO_MANIFEST_DIR").unwrap();
    let root = Path::new(&crate_dir).parent().unwrap();
    let mut build = cc::Build::new();
    build
        .include(root.join("include"))
        .file(root.join("src/static.c"))
        .define("MI_STATIC_LIB", None)
        .define("MI_BUILD_RELEASE", None)
        .flag_if_supported("-std=gnu11")
        .flag_if_supported("-fvisibility=hidden")
        .flag_if_supported("-fno-builtin-malloc")
        // Optimised in a debug build, too: what is debugged there is not the allocator.
        .opt_level(2)
        .debug(false);
    if env::var_os("CARGO_FEATURE_OVERRIDE").is_some() {
        build.define("MI_MALLOC_OVERRIDE", "1");
    }
    if env::var_os("CARGO_FEATURE_SECURE").is_some() {
        build.define("MI_SECURE", "4");
    }
    if env::var_os("CARGO_FEATURE_DEBUG").is_some() {
        build.define("MI_DEBUG", "2");
    } else {
        build.define("NDEBUG", None);
    }
    if env::var("CARGO_CFG_TARGET_ENV").as_deref() == Ok("musl") {
        build.define("MI_LIBC_MUSL", "1");
    }
    build.compile("mimalloc");
    match env::var("CARGO_CFG_TARGET_OS").as_deref() {
        Ok("windows") => {
            for library in ["psapi", "shell32", "user32", "advapi32", "bcrypt"] {
                println!("cargo::rustc-link-lib={library}");
            }
        }
        Ok("linux") => println!("cargo::rustc-link-lib=pthread"),
        _ => {}
    }
    for folder in ["include", "src"] {
        println!("cargo::rerun-if-changed={}", root.join(folder).display());
    }
    println!("cargo::metadata=include={}", root.join("include").display());
}
