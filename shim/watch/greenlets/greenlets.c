/* Finds the classes of gevent and greenlet, and tells greenlets from hubs by them. */
#include "watch/greenlets/greenlets.h"

#include <stdlib.h>

#include "shared/base.h"
#include "shared/saferead.h"
#include "shared/stacks/pylayout.h"
#include "shared/words.h"
#include "watch/reading/observation.h"
#include "watch/reading/remote.h"

#define SEARCH_NS 50000000          /* pause between two searches for gevent; */
#define SEARCH_AGAIN_NS 10000000000 /* after this time, search even if the number of modules is the same */
#define MODULE_DICT 16
#define DICT_USED 16
#define MAX_BASES 16
#define OLDEST '3' /* first digit of the oldest release whose objects are as they are read here */

static bool find_hub(struct greenlets *greenlets, struct kinds *kinds, uintptr_t modules) {
  uintptr_t module = remote_find(kinds, modules, "gevent.hub");
  uintptr_t dict = module ? remote_word(module + MODULE_DICT) : 0;
  uintptr_t hub = dict ? remote_find(kinds, dict, "Hub") : 0;
  if (hub && remote_kind(kinds, hub) == KIND_GREENLET) greenlets->hub_class = hub;
  return module != 0;
}

/* The class greenlet.greenlet is the last base that is one. It lies in greenlet's library, as the virtual tables do. */
static void find_base(struct greenlets *greenlets, struct kinds *kinds) {
  uintptr_t type = greenlets->hub_class;
  for (int i = 0; type && i < MAX_BASES && remote_kind(kinds, type) == KIND_GREENLET; i++) {
    greenlets->base = type;
    type = remote_base(type);
  }
}

static void check_release(struct greenlets *greenlets, struct kinds *kinds, uintptr_t modules) {
  char text[64] = {0};
  uintptr_t module = remote_find(kinds, modules, "greenlet");
  uintptr_t dict = module ? remote_word(module + MODULE_DICT) : 0;
  uintptr_t release = dict ? remote_find(kinds, dict, "__version__") : 0;
  if (!release || !safe_read(text, (void *)release, sizeof text - 1)) return;
  if (remote_kind(kinds, word_at(text, OBJECT_TYPE)) != KIND_STR || !(text[STR_STATE] & 64)) return;
  const char *digits = text + target.layout->ascii_data;
  greenlets->refused = digits[1] == '.' ? digits[0] < OLDEST : digits[2] != '.';
  greenlets->tested = digits[0] == '3' && digits[1] == '.' && digits[2] <= '5' && digits[3] == '.';
}

/* A module that is being imported has no Hub yet, so it is searched again. */
static void search(struct greenlets *greenlets, struct kinds *kinds, uintptr_t modules, int64_t now_ns) {
  uintptr_t used = remote_word(modules + DICT_USED);
  if (used == greenlets->modules_used && now_ns < greenlets->scanned_ns + SEARCH_AGAIN_NS) return;
  greenlets->scanned_ns = now_ns;
  greenlets->modules_used = find_hub(greenlets, kinds, modules) ? 0 : used;
  if (!greenlets->hub_class) return;
  check_release(greenlets, kinds, modules);
  find_base(greenlets, kinds);
}

bool greenlets_find(struct greenlets *greenlets, struct kinds *kinds, uintptr_t modules, int64_t now_ns) {
  if (greenlets->base) return true;
  if (modules) search(greenlets, kinds, modules, now_ns);
  greenlets->polls.due_ns = now_ns + SEARCH_NS;
  greenlets->polls.polled_ns = greenlets->polls.searched_ns = now_ns; /* those that are found later are newer */
  return greenlets->base != 0;
}

static enum greenlet_type read_type(struct greenlets *greenlets, struct kinds *kinds, uintptr_t type) {
  if (remote_kind(kinds, type) != KIND_GREENLET) return TYPE_NOT_GREENLET;
  for (int i = 0; type && i < MAX_BASES; i++, type = remote_base(type)) {
    if (type == greenlets->hub_class) return TYPE_HUB;
  }
  return TYPE_GREENLET;
}

enum greenlet_type greenlets_type(struct greenlets *greenlets, struct kinds *kinds, uintptr_t type) {
  for (uint32_t i = 0; i < GREENLET_TYPES && i < greenlets->type_count; i++) {
    if (greenlets->types[i].type == type) return greenlets->types[i].is;
  }
  if (type < 65536 || (type & 7)) return TYPE_NOT_GREENLET;
  uint32_t place = greenlets->type_count++ % GREENLET_TYPES;
  greenlets->types[place].type = type;
  return greenlets->types[place].is = read_type(greenlets, kinds, type);
}

void greenlets_free(struct greenlets *greenlets) {
  free(greenlets->pools);
  free(greenlets->fresh);
  *greenlets = (struct greenlets){0};
}
