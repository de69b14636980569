//! An adapter where wgpu knows all of it; `browser_adapter` is its counterpart in a browser.

use std::ops::Deref;

/// An adapter.
pub(crate) struct Adapter(pub(crate) wgpu::Adapter);

impl Deref for Adapter {
    type Target = wgpu::Adapter;

    fn deref(&self) -> &wgpu::Adapter {
        &self.0
    }
}

impl Adapter {
    /// Whether kernels may use subgroup operations.
    pub(crate) fn has_subgroups(&self) -> bool {
        self.features().contains(wgpu::Features::SUBGROUP)
    }

    /// Opens a device.
    pub(crate) async fn open(
        &self,
        descriptor: &wgpu::DeviceDescriptor<'_>,
    ) -> Result<(wgpu::Device, wgpu::Queue), wgpu::RequestDeviceError> {
        self.request_device(descriptor).await
    }
}
