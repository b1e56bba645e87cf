/*
 * Threads of one process that each run PHP, as servers do that are built with ZTS: threads SCRIPT ATONCE ALL
 *
 * Starts ALL threads, ATONCE of them at a time; each has one request, runs the script with its number, and ends. At last
 * the script is run on the main thread with the word "end"; its exit code is ours.
 */

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include <sapi/embed/php_embed.h>

static char *script;

/* Within a request of this thread. */
static int run(void)
{
    zend_file_handle file;

    zend_stream_init_filename(&file, script);
    zend_first_try {
        php_execute_script(&file);
    } zend_end_try();
    zend_destroy_file_handle(&file);
    return EG(exit_status);
}

static void set_arguments(char **arguments)
{
    SG(request_info).argc = 2;
    SG(request_info).argv = arguments;
}

static void *thread(void *number)
{
    char text[32];
    char *arguments[] = {script, text, NULL};

    snprintf(text, sizeof text, "%ld", (long) number);
    (void) ts_resource(0);
    set_arguments(arguments);
    if (php_request_startup() == SUCCESS) {
        SG(headers_sent) = 1;
        SG(request_info).no_headers = 1;
        run();
        php_request_shutdown(NULL);
    }
    ts_free_thread();
    return NULL;
}

int main(int argc, char **argv)
{
    char *arguments[] = {argc == 4 ? argv[1] : NULL, "end", NULL};
    long at_once = argc == 4 ? strtol(argv[2], NULL, 10) : 0;
    long all = argc == 4 ? strtol(argv[3], NULL, 10) : 0;
    pthread_t *threads = calloc(at_once > 0 ? at_once : 1, sizeof *threads);
    int status;

    if (at_once < 1 || all < at_once || !threads) {
        fprintf(stderr, "Usage: threads SCRIPT ATONCE ALL\n");
        return 2;
    }
    script = argv[1];
    /* One of those for which opcache works, when it is switched on. */
    php_embed_module.name = "cli";
    if (php_embed_init(2, arguments) != SUCCESS) {
        fprintf(stderr, "PHP does not start.\n");
        return 2;
    }
    for (long number = 0; number < all + at_once; number++) {
        pthread_t *place = &threads[number % at_once];

        if (number >= at_once) {
            pthread_join(*place, NULL);
        }
        if (number < all && (errno = pthread_create(place, NULL, thread, (void *) number)) != 0) {
            perror("pthread_create");
            return 2;
        }
    }
    status = run();
    php_embed_shutdown();
    free(threads);
    return status;
}
