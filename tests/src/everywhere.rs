//! Tests that run natively and in a browser's worker.

/// Makes tests of asynchronous functions beside it: natively of each as it is, in a browser in a dedicated worker, where those
/// `long in a browser` run when ignored ones do too.
#[macro_export]
macro_rules! everywhere {
    (mod $module:ident { $($name:ident,)* }) => {
        mod $module {
            $(
                #[cfg(not(target_arch = "wasm32"))]
                #[test]
                fn $name() {
                    $crate::reexport::block_on(super::$name());
                }

                #[cfg(target_arch = "wasm32")]
                #[$crate::reexport::wasm_bindgen_test::wasm_bindgen_test]
                async fn $name() {
                    super::$name().await;
                }
            )*
        }
    };
    (long in a browser: mod $module:ident { $($name:ident,)* }) => {
        mod $module {
            $(
                #[cfg(not(target_arch = "wasm32"))]
                #[test]
                fn $name() {
                    $crate::reexport::block_on(super::$name());
                }

                #[cfg(target_arch = "wasm32")]
                #[$crate::reexport::wasm_bindgen_test::wasm_bindgen_test]
                #[ignore = "minutes in a browser; cargo xtask test --all"]
                async fn $name() {
                    super::$name().await;
                }
            )*
        }
    };
}
