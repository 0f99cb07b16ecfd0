/* replay.c - runs a fuzz target over every file of the folders named on the command
 * line, so that seeds and past crashes are tests without a fuzzer. */
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int replay_file(const char *dir, const char *name)
{
    char path[4096];
    uint8_t *data;
    size_t len;
    FILE *f;

    (void)snprintf(path, sizeof(path), "%s/%s", dir, name);
    f = fopen(path, "rb");
    if (f == NULL) {
        perror(path);
        return -1;
    }
    data = malloc(8u << 20);
    len = data ? fread(data, 1, 8u << 20, f) : 0;
    (void)fclose(f);
    if (data != NULL) {
        (void)LLVMFuzzerTestOneInput(data, len);
    }
    free(data);
    return 0;
}

int main(int argc, char **argv)
{
    int n = 0;

    for (int i = 1; i < argc; i++) {
        DIR *dir = opendir(argv[i]);
        struct dirent *entry;

        if (dir == NULL) {
            perror(argv[i]);
            return 1;
        }
        while ((entry = readdir(dir)) != NULL) {
            if (entry->d_name[0] == '.') {
                continue;
            }
            if (replay_file(argv[i], entry->d_name) < 0) {
                return 1;
            }
            n++;
        }
        (void)closedir(dir);
    }
    printf("%d inputs replayed\n", n);
    return n > 0 ? 0 : 1; /* an empty corpus is a mistake */
}
