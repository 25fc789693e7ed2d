/* Ends with status 7, and says so. */
#include <unistd.h>

int main(void) { return write(1, "seven\n", 6) == 6 ? 7 : 8; }
