//! A file descriptor that an event loop watches: it is readable after a notification.

#[cfg(unix)]
pub use unix::Alarm;
#[cfg(not(unix))]
pub use without::Alarm;

#[cfg(unix)]
mod unix {
    use std::fs::File;
    use std::io::{self, Read, Write};
    use std::os::fd::{AsRawFd, OwnedFd};

    pub struct Alarm {
        read: File,
        /// None if it is the same file.
        write: Option<File>,
    }

    impl Alarm {
        pub fn new() -> io::Result<Alarm> {
            let (read, write) = pair()?;
            Ok(Alarm { read: File::from(read), write: write.map(File::from) })
        }

        pub fn descriptor(&self) -> i32 {
            self.read.as_raw_fd()
        }

        /// Does not block. The only possible error means that the descriptor is readable already.
        pub fn notify(&self) {
            let mut file = self.write.as_ref().unwrap_or(&self.read);
            let _ = file.write_all(&1_u64.to_ne_bytes());
        }

        pub fn quiet(&self) {
            let _ = (&self.read).read(&mut [0; 64]);
        }
    }

    #[cfg(target_os = "linux")]
    fn pair() -> io::Result<(OwnedFd, Option<OwnedFd>)> {
        use std::os::fd::FromRawFd;

        // SAFETY: the call has no pointers.
        let descriptor = unsafe { libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) };
        if descriptor < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the descriptor is new, and nothing else owns it.
        Ok((unsafe { OwnedFd::from_raw_fd(descriptor) }, None))
    }

    #[cfg(not(target_os = "linux"))]
    fn pair() -> io::Result<(OwnedFd, Option<OwnedFd>)> {
        use std::os::unix::net::UnixStream;

        let (read, write) = UnixStream::pair()?;
        read.set_nonblocking(true)?;
        write.set_nonblocking(true)?;
        Ok((read.into(), Some(write.into())))
    }
}

/// Elsewhere, the event loops watch no file descriptors.
#[cfg(not(unix))]
mod without {
    use std::io;

    pub struct Alarm;

    impl Alarm {
        pub fn new() -> io::Result<Alarm> {
            Err(io::ErrorKind::Unsupported.into())
        }

        pub fn descriptor(&self) -> i32 {
            -1
        }

        pub fn notify(&self) {}

        pub fn quiet(&self) {}
    }
}
