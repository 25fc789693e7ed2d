/* Starts the program of the second argument in the way of the first, and prints how it ended. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

int main(int count, char **arguments) {
  if (count < 3) return 2;
  const char *way = arguments[1], *path = arguments[2];
  char *own[] = {(char *)path, NULL};
  if (strcmp(way, "system") == 0) {
    setenv("LD_PRELOAD", path, 1);
    printf("%x\n", (unsigned)system("exit 7"));
    return 0;
  }
  int status = -1, fd = open(path, O_PATH | O_CLOEXEC);
  pid_t pid = fork();
  if (pid == 0) {
    if (strcmp(way, "fexecve") == 0) fexecve(fd, own, environ);
    if (strcmp(way, "execveat") == 0) execveat(fd, "", own, environ, AT_EMPTY_PATH);
    if (strcmp(way, "nowhere") == 0) execve("/no/such/file", own, (char **)16);
    if (strcmp(way, "path") == 0) execv(path, own);
    _exit(99);
  }
  waitpid(pid, &status, 0);
  printf("%x\n", (unsigned)status);
  return 0;
}
