use super::super::chip::Arch;
use super::super::find::{FoundGpu, find_gpus};
use super::*;

#[test]
fn memory_rates_follow_from_clock_and_bus() {
    // An H200's and an RX 7900 XTX's numbers.
    assert_eq!(memory_rate(3_201_000, 6144, 2), Some(4_916_736_000_000));
    assert_eq!(memory_rate(1_249_000, 384, 16), Some(959_232_000_000));
    assert_eq!(memory_rate(0, 384, 16), None);
}

/// Where the machine has GPUs: every call of the trait, on each of them.
#[test]
fn every_gpu_of_this_machine_does_what_is_asked() {
    for gpu in find_gpus().gpus {
        let context = gpu.driver.open(gpu.info.ordinal).unwrap();
        gpu.driver.bind(context).unwrap();
        memory_comes_and_goes(&gpu);
        bytes_go_round(&*gpu.driver);
        streams_wait_for_each_other(&*gpu.driver);
        what_is_no_code_is_refused(&*gpu.driver);
        if let Arch::Sm(_) = gpu.info.chip.arch {
            a_kernel_runs(&*gpu.driver);
        }
        gpu.driver.close(context, gpu.info.ordinal);
    }
}

/// Where the machine has GPUs: between any two of one driver, and from each to itself.
#[test]
fn gpus_of_one_driver_copy_to_each_other() {
    const N_BYTES: usize = 1 << 20;
    let gpus = find_gpus().gpus;
    for (to, from) in gpus.iter().flat_map(|to| gpus.iter().map(move |from| (to, from))) {
        if to.id.kind != from.id.kind {
            continue;
        }
        let driver = &*from.driver;
        let [context_to, context_from] = [to, from].map(|gpu| driver.open(gpu.info.ordinal).unwrap());
        driver.bind(context_to).unwrap();
        let address_to = driver.alloc(N_BYTES as u64).unwrap();
        driver.bind(context_from).unwrap();
        let is_direct = driver.enable_peer(from.info.ordinal, (context_to, to.info.ordinal)).unwrap();
        assert!(!(is_direct && to.id == from.id), "a device is no peer of its own");
        assert_eq!(driver.enable_peer(from.info.ordinal, (context_to, to.info.ordinal)), Ok(is_direct), "again");
        let (stream, address_from) = (driver.create_stream().unwrap(), driver.alloc(N_BYTES as u64).unwrap());
        driver.fill(address_from, 0x5a, N_BYTES as u64, stream).unwrap();
        let (target, source) =
            ((address_to, context_to, to.info.ordinal), (address_from, context_from, from.info.ordinal));
        driver.copy_peer(target, source, N_BYTES as u64, stream).unwrap();
        driver.sync_stream(stream).unwrap();
        driver.free(address_from).unwrap();
        driver.destroy_stream(stream).unwrap();
        driver.bind(context_to).unwrap();
        let stream = driver.create_stream().unwrap();
        let mut bytes = vec![0; N_BYTES];
        download(driver, &mut bytes, address_to, stream);
        assert!(bytes.iter().all(|byte| *byte == 0x5a), "{} to {}", from.id, to.id);
        driver.free(address_to).unwrap();
        driver.destroy_stream(stream).unwrap();
        driver.close(context_from, from.info.ordinal);
        driver.close(context_to, to.info.ordinal);
    }
}

/// `n_bytes` of pinned memory for as long as `use_it` takes.
fn with_pinned(driver: &dyn Driver, n_bytes: usize, use_it: impl FnOnce(&mut [u8])) {
    let memory = driver.alloc_pinned(n_bytes).unwrap();
    // SAFETY: so many bytes were allocated and nobody else knows them; all bytes are written to before they are read.
    let bytes = unsafe {
        memory.write_bytes(0, n_bytes);
        std::slice::from_raw_parts_mut(memory, n_bytes)
    };
    use_it(bytes);
    // SAFETY: it came from `alloc_pinned`, and `use_it` has ended.
    unsafe { driver.free_pinned(memory) }.unwrap();
}

fn upload(driver: &dyn Driver, to: DeviceAddress, data: &[u8], stream: StreamHandle) {
    // SAFETY: `data` lives until the stream has been waited for.
    unsafe { driver.copy_to_device(to, data.as_ptr(), data.len(), stream) }.unwrap();
    driver.sync_stream(stream).unwrap();
}

fn download(driver: &dyn Driver, data: &mut [u8], from: DeviceAddress, stream: StreamHandle) {
    // SAFETY: `data` lives until the stream has been waited for, and is not looked at before.
    unsafe { driver.copy_to_host(data.as_mut_ptr(), from, data.len(), stream) }.unwrap();
    driver.sync_stream(stream).unwrap();
}

fn memory_comes_and_goes(gpu: &FoundGpu) {
    let driver = &*gpu.driver;
    let (free, total) = driver.memory().unwrap();
    assert!(free > 0 && free <= total && total <= gpu.info.total_bytes + (1 << 30), "{free} of {total}");
    let address = driver.alloc(256 << 20).unwrap();
    let (less, _) = driver.memory().unwrap();
    assert!(less + (200 << 20) <= free, "{less} and {free} before");
    driver.free(address).unwrap();
    let nothing = driver.alloc(0).unwrap();
    driver.free(nothing).unwrap();
    let error = driver.alloc(total + (1 << 40)).unwrap_err();
    assert_eq!(error.kind, DriverErrorKind::OutOfMemory, "{error}");
    // The device goes on after that.
    let address = driver.alloc(1 << 20).unwrap();
    driver.free(address).unwrap();
}

fn bytes_go_round(driver: &dyn Driver) {
    const N_BYTES: usize = 1_000_003;
    let stream = driver.create_stream().unwrap();
    let [one, two] = [(); 2].map(|()| driver.alloc(N_BYTES as u64).unwrap());
    with_pinned(driver, N_BYTES, |bytes| {
        (0u32..).zip(&mut *bytes).for_each(|(i, byte)| *byte = (i.wrapping_mul(2_654_435_761) >> 24) as u8);
        let expected = bytes.to_vec();
        upload(driver, one, bytes, stream);
        bytes.fill(0);
        driver.copy_on_device(two, one, N_BYTES as u64, stream).unwrap();
        driver.fill(one, 0xa5, N_BYTES as u64 - 1, stream).unwrap();
        driver.fill(one, 0, 0, stream).unwrap();
        download(driver, bytes, two, stream);
        assert!(bytes == expected);
        download(driver, bytes, one, stream);
        assert!(bytes[..N_BYTES - 1].iter().all(|byte| *byte == 0xa5) && bytes[N_BYTES - 1] == expected[N_BYTES - 1]);
    });
    // Memory of the ordinary kind is taken too.
    upload(driver, one, b"pageable", stream);
    let mut text = [0; 8];
    download(driver, &mut text, one, stream);
    assert_eq!(&text, b"pageable");
    driver.destroy_stream(stream).unwrap();
    [one, two].into_iter().for_each(|address| driver.free(address).unwrap());
}

fn streams_wait_for_each_other(driver: &dyn Driver) {
    const N_BYTES: u64 = 64 << 20;
    let [first, second] = [(); 2].map(|()| driver.create_stream().unwrap());
    let [start, end] = [(); 2].map(|()| driver.create_event(true).unwrap());
    let filled = driver.create_event(false).unwrap();
    let [from, to] = [(); 2].map(|()| driver.alloc(N_BYTES).unwrap());
    driver.record_event(start, first).unwrap();
    for byte in 0..20 {
        driver.fill(from, byte, N_BYTES, first).unwrap();
    }
    driver.record_event(end, first).unwrap();
    driver.record_event(filled, first).unwrap();
    driver.wait_event(second, filled).unwrap();
    driver.copy_on_device(to, from, N_BYTES, second).unwrap();
    let mut last = [0];
    download(driver, &mut last, DeviceAddress(to.0 + N_BYTES - 1), second);
    assert_eq!(last, [19]);
    assert!(driver.query_event(filled).unwrap());
    driver.sync_event(end).unwrap();
    let ms = driver.elapsed_ms(start, end).unwrap();
    assert!(ms > 0.0 && ms < 60_000.0, "{ms}");
    assert!(driver.elapsed_ms(start, filled).is_err(), "an event without times");
    [start, end, filled].into_iter().for_each(|event| driver.destroy_event(event).unwrap());
    [first, second].into_iter().for_each(|stream| driver.destroy_stream(stream).unwrap());
    [from, to].into_iter().for_each(|address| driver.free(address).unwrap());
}

fn what_is_no_code_is_refused(driver: &dyn Driver) {
    for image in [&b""[..], b"\x7fELF", b"this is no code"] {
        let error = driver.load_module(image).unwrap_err();
        assert_eq!(error.kind, DriverErrorKind::Other, "{error}");
    }
}

/// Adds a number to each word: the driver compiles this itself.
const ADD: &str = "
.version 7.0
.target sm_75
.address_size 64
.visible .entry add(.param .u64 words, .param .u32 value) {
    .reg .b32 %n<5>;
    .reg .b64 %p<3>;
    ld.param.u64 %p1, [words];
    ld.param.u32 %n1, [value];
    mov.u32 %n2, %tid.x;
    mov.u32 %n3, %ntid.x;
    mov.u32 %n4, %ctaid.x;
    mad.lo.u32 %n2, %n3, %n4, %n2;
    mul.wide.u32 %p2, %n2, 4;
    add.u64 %p1, %p1, %p2;
    ld.global.u32 %n3, [%p1];
    add.u32 %n3, %n3, %n1;
    st.global.u32 [%p1], %n3;
    ret;
}
";

fn a_kernel_runs(driver: &dyn Driver) {
    let stream = driver.create_stream().unwrap();
    let module = driver.load_module(ADD.as_bytes()).unwrap();
    assert_eq!(driver.function(module, c"subtract").unwrap_err().kind, DriverErrorKind::Other);
    let add = driver.function(module, c"add").unwrap();
    let words = driver.alloc(4 * 1024).unwrap();
    driver.fill(words, 0, 4 * 1024, stream).unwrap();
    let (mut address, mut value) = (words.0, 7u32);
    let mut params = [(&raw mut address).cast(), (&raw mut value).cast()];
    // SAFETY: an address and a word are what the kernel takes; it touches 512 of 1024 words, and is waited for.
    unsafe { driver.launch(add, [4, 1, 1], 128, &mut params, stream) }.unwrap();
    let mut bytes = [0; 4 * 1024];
    download(driver, &mut bytes, words, stream);
    let sums: Vec<u32> = bytes.chunks_exact(4).map(|word| u32::from_le_bytes(word.try_into().unwrap())).collect();
    assert!(sums[..512].iter().all(|sum| *sum == 7) && sums[512..].iter().all(|sum| *sum == 0), "{sums:?}");
    // SAFETY: refused before anything runs: no block has so many threads.
    let error = unsafe { driver.launch(add, [1, 1, 1], 1 << 20, &mut params, stream) }.unwrap_err();
    assert_eq!(error.kind, DriverErrorKind::Other, "{error}");
    driver.unload_module(module).unwrap();
    driver.free(words).unwrap();
    driver.destroy_stream(stream).unwrap();
}
