//! A forked child can use buffers, regardless of what its parent's threads did during the fork.
#![cfg(unix)]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::thread;
use std::time::{Duration, Instant};

use _native::buffer::{Buffer, claim};

const FORKS: usize = 300;
const SIZE: usize = 1 << 20;
/// A child has almost nothing to do: if it takes longer than this, it hangs.
const PATIENCE: Duration = Duration::from_secs(10);

fn use_a_buffer() {
    drop(Buffer::new(claim(SIZE)));
}

/// Forks, and returns whether the child ends by itself.
fn child_ends() -> bool {
    // SAFETY: the child calls only the tested functions and `_exit`.
    let child = unsafe { libc::fork() };
    assert!(child >= 0, "fork failed");
    if child == 0 {
        use_a_buffer();
        // SAFETY: ends the process without using resources of its parent.
        unsafe { libc::_exit(0) };
    }
    let deadline = Instant::now() + PATIENCE;
    let mut status = 0;
    while Instant::now() < deadline {
        // SAFETY: `status` lives on this stack; the child is ours.
        if unsafe { libc::waitpid(child, &mut status, libc::WNOHANG) } == child {
            return libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 0;
        }
        thread::sleep(Duration::from_micros(200));
    }
    // SAFETY: the child is ours and has not been waited for.
    unsafe {
        libc::kill(child, libc::SIGKILL);
        libc::waitpid(child, &mut status, 0);
    }
    false
}

#[test]
fn a_child_forked_while_threads_use_buffers_does_not_hang() {
    let stop = Arc::new(AtomicBool::new(false));
    let busy: Vec<_> = (0..3)
        .map(|_| {
            let stop = Arc::clone(&stop);
            thread::spawn(move || {
                while !stop.load(SeqCst) {
                    use_a_buffer();
                }
            })
        })
        .collect();
    let hung = (0..FORKS).find(|_| !child_ends());
    stop.store(true, SeqCst);
    busy.into_iter().for_each(|thread| thread.join().unwrap());
    assert_eq!(hung, None, "the child of that fork did not end");
}
