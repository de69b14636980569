//! Tests that run natively and in a browser's worker.

/// Makes tests of asynchronous functions beside it: natively of each as it is, in a browser in a dedicated worker, where those
/// `long in a browser` run when ignored ones do too.
#[macro_export]
macro_rules! everywhere {
    (mod $module:ident { $($name:ident,)* }) => {
        $crate::everywhere!(@ [] mod $module { $($name,)* });
    };
    (long in a browser: mod $module:ident { $($name:ident,)* }) => {
        $crate::everywhere!(
            @ [#[ignore = "minutes in a browser; cargo xtask test --all"]]
            mod $module { $($name,)* }
        );
    };
    // The attributes of a browser's tests, then the same for both.
    (@ $attributes:tt mod $module:ident { $($name:ident,)* }) => {
        mod $module {
            $($crate::everywhere!(@ $attributes fn $name);)*
        }
    };
    // As single tokens: as `meta` the macro that makes a browser's test would not know `ignore` again.
    (@ [$(# $attribute:tt)*] fn $name:ident) => {
        #[cfg(not(target_arch = "wasm32"))]
        #[test]
        fn $name() {
            $crate::reexport::block_on(super::$name());
        }

        #[cfg(target_arch = "wasm32")]
        #[$crate::reexport::wasm_bindgen_test::wasm_bindgen_test]
        $(# $attribute)*
        async fn $name() {
            super::$name().await;
        }
    };
}
