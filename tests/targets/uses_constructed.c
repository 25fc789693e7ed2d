/* A program that is linked with the library of constructed.c. */
#include <stdio.h>

int constructed(void);

int main(void) {
  printf("%d\n", constructed());
  return 0;
}
