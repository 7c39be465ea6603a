// The C interface from Rust: a line is fitted by SGD under bf16 autocast. Handles are owned by values whose Drop frees
// them, and a status becomes a Result, which is all that a binding needs.
use std::ffi::{c_char, c_int, c_void, CStr, CString};
use std::ptr;

#[repr(C)]
struct Device {
    kind: c_int,
    index: c_int,
}

#[repr(C)]
struct Layout {
    shape: *const i64,
    rank: c_int,
    dtype: c_int,
    device: Device,
}

#[repr(C)]
struct SgdOptions {
    lr: f64,
    momentum: f64,
    weight_decay: f64,
}

extern "C" {
    fn bnd_last_error() -> *const c_char;
    fn bnd_tensor_from_data(layout: *const Layout, data: *const c_void, bytes: usize, result: *mut *mut c_void) -> c_int;
    fn bnd_tensor_set_requires_grad(tensor: *mut c_void, requires_grad: c_int) -> c_int;
    fn bnd_tensor_backward(tensor: *const c_void, seed: *const c_void) -> c_int;
    fn bnd_tensor_item(tensor: *const c_void, value: *mut f64) -> c_int;
    fn bnd_tensor_free(tensor: *mut c_void);
    fn bnd_op(
        name: *const c_char,
        inputs: *const *const c_void,
        input_count: usize,
        options: *const c_void,
        option_count: usize,
        result: *mut *mut c_void,
    ) -> c_int;
    fn bnd_autocast_begin(dtype: c_int, enabled: c_int, result: *mut *mut c_void) -> c_int;
    fn bnd_autocast_end(guard: *mut c_void);
    fn bnd_sgd_new(parameters: *const *const c_void, count: usize, options: *const SgdOptions, result: *mut *mut c_void) -> c_int;
    fn bnd_optimizer_step(optimizer: *mut c_void) -> c_int;
    fn bnd_optimizer_zero_grad(optimizer: *mut c_void) -> c_int;
    fn bnd_optimizer_free(optimizer: *mut c_void);
}

const F32: c_int = 1;
const BF16: c_int = 3;

fn check(status: c_int) -> Result<(), String> {
    if status == 0 {
        return Ok(());
    }
    Err(unsafe { CStr::from_ptr(bnd_last_error()) }.to_string_lossy().into_owned())
}

struct Tensor(*mut c_void);

impl Drop for Tensor {
    fn drop(&mut self) {
        unsafe { bnd_tensor_free(self.0) }
    }
}

impl Tensor {
    fn new(values: &[f32], shape: &[i64]) -> Result<Tensor, String> {
        let layout = Layout { shape: shape.as_ptr(), rank: shape.len() as c_int, dtype: F32, device: Device { kind: 0, index: 0 } };
        let mut handle = ptr::null_mut();
        check(unsafe { bnd_tensor_from_data(&layout, values.as_ptr().cast(), values.len() * 4, &mut handle) })?;
        Ok(Tensor(handle))
    }

    fn item(&self) -> Result<f64, String> {
        let mut value = 0.0;
        check(unsafe { bnd_tensor_item(self.0, &mut value) })?;
        Ok(value)
    }
}

fn op(name: &str, inputs: &[&Tensor]) -> Result<Tensor, String> {
    let name = CString::new(name).unwrap();
    let handles: Vec<*const c_void> = inputs.iter().map(|one| one.0 as *const c_void).collect();
    let mut handle = ptr::null_mut();
    check(unsafe { bnd_op(name.as_ptr(), handles.as_ptr(), handles.len(), ptr::null(), 0, &mut handle) })?;
    Ok(Tensor(handle))
}

fn fit() -> Result<f64, String> {
    let x = Tensor::new(&[-1.0, 0.0, 1.0, 2.0], &[4, 1])?;
    let y = Tensor::new(&[-2.0, 0.0, 2.0, 4.0], &[4, 1])?;
    let slope = Tensor::new(&[0.0], &[1, 1])?;
    check(unsafe { bnd_tensor_set_requires_grad(slope.0, 1) })?;
    let options = SgdOptions { lr: 0.1, momentum: 0.0, weight_decay: 0.0 };
    let parameters = [slope.0 as *const c_void];
    let mut optimizer = ptr::null_mut();
    check(unsafe { bnd_sgd_new(parameters.as_ptr(), 1, &options, &mut optimizer) })?;
    let mut last = f64::NAN;
    for _ in 0..40 {
        let mut autocast = ptr::null_mut();
        check(unsafe { bnd_autocast_begin(BF16, 1, &mut autocast) })?;
        let loss = op("mse_loss", &[&op("linear", &[&x, &slope])?, &y])?;
        unsafe { bnd_autocast_end(autocast) };
        check(unsafe { bnd_optimizer_zero_grad(optimizer) })?;
        check(unsafe { bnd_tensor_backward(loss.0, ptr::null()) })?;
        check(unsafe { bnd_optimizer_step(optimizer) })?;
        last = loss.item()?;
    }
    unsafe { bnd_optimizer_free(optimizer) };
    let refused = op("matmul", &[&x, &y]);
    assert!(refused.is_err(), "a product of wrong shapes was not refused");
    Ok(last)
}

fn main() {
    let loss = fit().expect("binade");
    println!("loss {loss:e}");
    assert!(loss < 1e-4, "the loss did not fall");
}
