/* The libc functions that the shim interposes, as INTERPOSED(result, name, arguments), grouped by the file that exports
 * them. The file that includes this list defines INTERPOSED. */
/* late.c */
INTERPOSED(int, pthread_condattr_setclock, (pthread_condattr_t *, clockid_t))
INTERPOSED(int, pthread_key_create, (pthread_key_t *, void (*)(void *)))
/* interpose.c: the malloc family */
INTERPOSED(void *, malloc, (size_t))
INTERPOSED(void *, calloc, (size_t, size_t))
INTERPOSED(void *, realloc, (void *, size_t))
INTERPOSED(void *, reallocarray, (void *, size_t, size_t))
INTERPOSED(void, free, (void *))
INTERPOSED(void *, memalign, (size_t, size_t))
INTERPOSED(int, posix_memalign, (void **, size_t, size_t))
INTERPOSED(void *, aligned_alloc, (size_t, size_t))
INTERPOSED(void *, valloc, (size_t))
INTERPOSED(void *, pvalloc, (size_t))
INTERPOSED(size_t, malloc_usable_size, (void *))
/* mappings.c */
INTERPOSED(void *, mmap, (void *, size_t, int, int, int, off_t))
INTERPOSED(void *, mmap64, (void *, size_t, int, int, int, off64_t))
INTERPOSED(int, munmap, (void *, size_t))
INTERPOSED(void *, mremap, (void *, size_t, size_t, int, ...))
INTERPOSED(int, mprotect, (void *, size_t, int))
INTERPOSED(int, madvise, (void *, size_t, int))
/* copies.c */
INTERPOSED(void *, memcpy, (void *, const void *, size_t))
INTERPOSED(void *, memmove, (void *, const void *, size_t))
INTERPOSED(void *, __memcpy_chk, (void *, const void *, size_t, size_t))
INTERPOSED(void *, __memmove_chk, (void *, const void *, size_t, size_t))
/* images.c */
INTERPOSED(int, dlclose, (void *))
/* timers.c */
INTERPOSED(int, sigaltstack, (const stack_t *, stack_t *))
/* limits.c */
INTERPOSED(int, setrlimit, (__rlimit_resource_t, const struct rlimit *))
INTERPOSED(int, setrlimit64, (__rlimit_resource_t, const struct rlimit64 *))
INTERPOSED(int, prlimit, (pid_t, __rlimit_resource_t, const struct rlimit *, struct rlimit *))
INTERPOSED(int, prlimit64, (pid_t, __rlimit_resource_t, const struct rlimit64 *, struct rlimit64 *))
/* threads.c */
INTERPOSED(int, pthread_create, (pthread_t *, const pthread_attr_t *, void *(*)(void *), void *))
INTERPOSED(int, thrd_create, (thrd_t *, int (*)(void *), void *))
/* process.c */
INTERPOSED(void, _exit, (int))
INTERPOSED(void, _Exit, (int))
INTERPOSED(void, quick_exit, (int))
/* reaped.c */
INTERPOSED(pid_t, wait4, (pid_t, int *, int, struct rusage *))
INTERPOSED(int, waitid, (idtype_t, id_t, siginfo_t *, int))
/* sigexports.c */
INTERPOSED(int, sigaction, (int, const struct sigaction *, struct sigaction *))
INTERPOSED(sighandler_t, signal, (int, sighandler_t))
INTERPOSED(sighandler_t, __sysv_signal, (int, sighandler_t))
INTERPOSED(sighandler_t, sigset, (int, sighandler_t))
INTERPOSED(int, sighold, (int))
INTERPOSED(int, sigrelse, (int))
INTERPOSED(int, sigignore, (int))
INTERPOSED(int, siginterrupt, (int, int))
INTERPOSED(int, sigprocmask, (int, const sigset_t *, sigset_t *))
INTERPOSED(int, pthread_sigmask, (int, const sigset_t *, sigset_t *))
INTERPOSED(int, sigsetmask, (int))
INTERPOSED(int, sigwait, (const sigset_t *, int *))
INTERPOSED(int, sigwaitinfo, (const sigset_t *, siginfo_t *))
INTERPOSED(int, sigtimedwait, (const sigset_t *, siginfo_t *, const struct timespec *))
INTERPOSED(int, sigsuspend, (const sigset_t *))
INTERPOSED(int, sigpending, (sigset_t *))
INTERPOSED(int, signalfd, (int, const sigset_t *, int))
INTERPOSED(int, ppoll, (struct pollfd *, nfds_t, const struct timespec *, const sigset_t *))
INTERPOSED(int, __ppoll_chk, (struct pollfd *, nfds_t, const struct timespec *, const sigset_t *, size_t))
INTERPOSED(int, pselect, (int, fd_set *, fd_set *, fd_set *, const struct timespec *, const sigset_t *))
INTERPOSED(int, epoll_pwait, (int, struct epoll_event *, int, int, const sigset_t *))
/* rights.c */
INTERPOSED(int, setuid, (uid_t))
INTERPOSED(int, seteuid, (uid_t))
INTERPOSED(int, setreuid, (uid_t, uid_t))
INTERPOSED(int, setresuid, (uid_t, uid_t, uid_t))
INTERPOSED(int, setfsuid, (uid_t))
/* exec.c; execl, execlp, execle, execv and execvp use these, as in libc */
INTERPOSED(int, execve, (const char *, char *const[], char *const[]))
INTERPOSED(int, execvpe, (const char *, char *const[], char *const[]))
INTERPOSED(int, fexecve, (int, char *const[], char *const[]))
INTERPOSED(int, execveat, (int, const char *, char *const[], char *const[], int))
INTERPOSED(int, posix_spawn,
           (pid_t *, const char *, const posix_spawn_file_actions_t *, const posix_spawnattr_t *, char *const[],
            char *const[]))
INTERPOSED(int, posix_spawnp,
           (pid_t *, const char *, const posix_spawn_file_actions_t *, const posix_spawnattr_t *, char *const[],
            char *const[]))
INTERPOSED(int, system, (const char *))
INTERPOSED(FILE *, popen, (const char *, const char *))
/* Functions that many versions of libc lack. They come last: the lookup of a missing function allocates, and
 * an allocator of the executable or of a library that is preloaded before the shim may call any of the functions above. */
INTERPOSED(void, free_sized, (void *, size_t))
INTERPOSED(void, free_aligned_sized, (void *, size_t, size_t))
INTERPOSED(int, epoll_pwait2, (int, struct epoll_event *, int, const struct timespec *, const sigset_t *))
