/* The least program that uses the installed library. */
#include <redlock.h>
#include <stdio.h>

int main(void)
{
    puts(redlock_version());
    return 0;
}
