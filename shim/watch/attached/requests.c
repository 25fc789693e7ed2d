/* Requests to attach to processes, from other threads of the recorder. */
#include <pthread.h>
#include <stdlib.h>

#include "formats/spool/spool.h"
#include "shared/base.h"
#include "watch/attached/attached.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct request *first, **last = &first;

bool attached_request(const struct record_process_start *start, const char *texts, const struct thread_entry *python) {
  size_t bytes = (size_t)start->exe_bytes + start->argv_bytes;
  struct request *request = malloc(sizeof *request + bytes);
  if (!request) return false;
  *request = (struct request){.start = *start, .python = *python};
  memcpy(request->texts, texts, bytes);
  pthread_mutex_lock(&lock);
  *last = request;
  last = &request->next;
  pthread_mutex_unlock(&lock);
  return true;
}

struct request *attached_next_request(void) {
  pthread_mutex_lock(&lock);
  struct request *request = first;
  if (request) first = request->next;
  if (!first) last = &first;
  pthread_mutex_unlock(&lock);
  return request;
}
