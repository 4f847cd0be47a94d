#!/bin/sh
# Run a loopty system worker as a Slurm job, in the foreground.
#
#   loopty system worker --recipe slurm > ~/loopty-slurm.sh
#
# In loopty.toml, with the options of your jobs as srun takes them:
#
#   [executor]
#   kind = "pool"
#   listen = "0.0.0.0:7700"   # a port of this machine that the nodes reach
#   start = "sh ~/loopty-slurm.sh --partition=gpu --gpus=1 --cpus-per-task=8 --time=600"
#   workers = 8
#   wait_seconds = 86400      # jobs may wait in the queue this long
#
# loopty has to be on the PATH of the nodes, in the same version. The URL by which a worker joins is a secret, and
# Slurm carries it to the node in the environment of the job, as it carries everything.
#
# No job stays. It ends with its worker, and the worker ends with the session, or two minutes after the driver was
# killed. A session that ends earlier cancels jobs that wait or run. After --time (minutes; ten hours unless you say
# more or less), Slurm ends the job. loopty then starts another.
#
# Tested on a real Slurm of one node.

trap : TERM INT HUP # srun gets it as well, and ends its job before it ends itself

# Of your environment, a job gets these variables alone: the others may hold keys. Add what your programs need.
srun --job-name=loopty-worker --ntasks=1 --time=600 \
    --export=HOME,PATH,LANG,LD_LIBRARY_PATH,LOOPTY_WORKER_URL "$@" \
    loopty system worker --trust --patience 120 2>&1 |
    (trap '' TERM INT HUP && exec sed -u '/^srun: error: .*: Exited with exit code/d') # after the worker's reason
