/* Opens each library it is told, with every function resolved at once. */
#include <dlfcn.h>
#include <stdio.h>

int main(int count, char **arguments)
{
	int failed = 0;
	for (int i = 1; i < count; i++) {
		if (!dlopen(arguments[i], RTLD_NOW | RTLD_LOCAL)) {
			fprintf(stderr, "%s\n", dlerror());
			failed = 1;
		}
	}
	return failed;
}
