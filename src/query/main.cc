// A query worker by itself, for the tests of this folder (probingd is one with --query-worker).
#include "query/worker.h"

int main() { return probing::query::RunWorker({}); }
