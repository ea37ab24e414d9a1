"""The texts of job scripts: made by make generate from the templates beside it, which are what is edited."""

from __future__ import annotations

import shlex
from typing import Any, Dict

Given = Dict[str, Any]  # the values that a template has names for


class _Loop:
    def __init__(self, place: int, count: int) -> None:
        self.first, self.last = place == 0, place == count - 1


def _looped(items: Any) -> Any:
    return ((_Loop(place, len(items)), item) for place, item in enumerate(items))


def _body(out: list[str], given: Given) -> None:
    out += ['#!/bin/bash\n']
    for line in given['directives']:
        out += [str(given['directive']), ' ', str(line), '\n']
    out += ['\n# ', str(given['job'].name), ', written by modak; deploying again overwrites it.\n\nset -u\n\ncd "', str(given['folder']), '" || exit 1\ndeployment=$PWD\n']
    if (((given['container'] or given['image']) or given['data']) or given['after']):
        out += ['workspace=$(cd ../.. && pwd)\n']
    out += ['job_id="', str(given['job_id']), '"\n']
    if given['pods']:
        _pods(out, given)
    out += ['\n# Only one job of a deployment trains, even if it was submitted twice.\nmkdir -p state\n']
    if (given['checkpoint'] and (given['scheduler'] == 'torque')):
        out += ['\nsubmitted() {\n    printf \'{"job_id": "%s", "time": %s}\\n\' "${1##*$\'\\n\'}" "$(date +%s)" > state/submitted.part && mv state/submitted.part state/submitted.json\n}\n# The previous job ended in order to be queued again, and left its place to the next one.\nif [ -s state/claim ] && [ "$(cat state/claim)" != "$job_id" ] && mv state/requeued state/taken 2> /dev/null; then\n    echo "$job_id" > state/claim\n    submitted "$job_id"\nfi\n']
    out += ['if ! (set -o noclobber && echo "$job_id" > state/claim) 2> /dev/null; then\n    owner=$(cat state/claim)\n    if [ -n "$owner" ] && [ "$owner" != "$job_id" ]; then\n        echo "job $owner already runs this deployment, so job $job_id does nothing" >&2\n        exit 75\n    fi\nfi\n\n# A scheduler may run a job again, for example after its node failed: what the earlier run noted no longer counts.\nif [ "$(cat state/finished 2> /dev/null)" = 0 ]; then\n    exit 0\nfi\nrm -f state/finished state/ended state/missed', str((' state/failed_rank state/goes_on' if given['ranks'] else '')), str(('; rm -rf state/cores' if given['notes_cores'] else '')), '\n# Takes the room for the exit code now, so that it can be noted even on a full disk.\necho > state/finishing\n']
    if given['checkpoint']:
        out += ['\n# It continues from where it was.\nrm -f state/requeued state/stop state/late\ncheckpoints=$deployment/checkpoints\nstop=$deployment/state/stop\nmkdir -p "$checkpoints"\necho "$(date +%s) $job_id $(hostname)" >> state/runs\nrun=$(wc -l < state/runs)\n']
    out += ['\n# The end is written by the job itself: schedulers forget, and a node that died can look like success.\nfinish() {\n    local code=$?\n    trap - EXIT\n    cd "$deployment" || exit "$code"\n']
    if given['staging_path']:
        out += ['    [ -z "$local_copy" ] || ', str(given['everywhere']), 'rm -rf "$local_copy"\n']
    if given['checkpoint']:
        out += ['    [ -e state/requeued ] && exit "$code"\n']
    out += ['    # another attempt may have taken the place of one whose node had vanished for a while\n    if ! [ -e state/claim ] || { [ -s state/claim ] && [ "$(cat state/claim)" != "$job_id" ]; }; then\n        exit "$code"\n    fi\n']
    if given['limit']:
        out += ['    [ "$SECONDS" -ge ', str(given['limit']), ' ] && echo timeout > state/ended\n']
    if given['output_file']:
        out += ['    cat output.log >&3\n']
    if (given['output_file'] or given['error_file']):
        out += ['    cat error.log >&4\n']
    out += ['    echo "$code" 1<> state/finishing && mv state/finishing state/finished\n    exit "$code"\n}\n']
    if given['staging_path']:
        out += ['local_copy=\n']
    out += ["trap finish EXIT\ntrap 'exit 143' TERM\ntrap 'exit 130' INT\n"]
    if given['checkpoint']:
        out += ['trap \': > "$stop"\' USR1\n']
    out += ['\n']
    if (given['output_file'] or given['error_file']):
        out += ["# What modak watches stays here; the user's own files get all of it at the end. scheduler.log is what the scheduler writes.\nexec 3>&1 4>&2\nln -sfn ", str(given['scheduler_says']), ' scheduler.log\n']
    out += ['exec >> output.log 2>> error.log\necho "$(date +%s) $job_id $(hostname)"']
    if given['ranks']:
        for host in given['ranks'].hosts:
            out += [',', str(shlex.quote(host))]
    out += [' > state/started\n']
    for loop_103, (variable, deployments) in _looped(given['after']):
        if loop_103.first:
            out += ['\n# Where the earlier trainings ran, with everything they wrote.\n']
        out += ['export ', str(variable), '=']
        for loop_108, (each) in _looped(deployments):
            out += ['"$workspace/deployments/', str(each), '/code"', str(('' if loop_108.last else ':'))]
        out += ['\n']
    if given['after']:
        out += ['\n# What modak has them write beside that folder is linked there, too, unless they have a file of that name.\nIFS=: read -r -a folders <<< "']
        for loop_114, (name, _) in _looped(given['after']):
            out += ['$', str(name), str(('' if loop_114.last else ':'))]
        out += ['"\nfor each in "${folders[@]}"; do\n    for name in metrics.json checkpoints output.log error.log; do\n        if [ -e "$each/../$name" ] && ! [ -e "$each/$name" ]; then\n            ln -sfn "../$name" "$each/$name"\n        fi\n    done\ndone\n']
    if given['checkpoint']:
        _checkpoint(out, given)
    if given['names_no_cores']:
        out += ['\n# If a task gets more cores for its memory, only SLURM_CPUS_PER_TASK says so, and an srun that is not given their number\n# does not start if SLURM_TRES_PER_TASK has another one.\nunset SLURM_TRES_PER_TASK\n']
    if given['modules']:
        out += ["\n# A site's own scripts may not work with set -u.\nset +u\nif ! command -v module > /dev/null; then\n    # shellcheck source=/dev/null\n    . /etc/profile\nfi\n"]
        for module in given['modules']:
            out += ['module load ', str(shlex.quote(module)), ' || exit 1\n']
        out += ['set -u\n']
    def shell(texts: Any) -> str:
        out: list[str] = []
        if texts:
            out += ['\ncd code || exit 1\nset +u -e\n']
            for text in texts:
                out += ['eval ', str(text), '\n']
            out += ['set -u +e\ncd "$deployment" || exit 1\n']
        return "".join(out)
    given['shell'] = shell
    out += [str(given['shell'](given['site_pre']))]
    for each in given['data']:
        if each.is_present:
            out += ["\n# The target already has this data: this node must have it, too, unchanged since it was checked.\n{\n    IFS= read -r -d '' ", str(each.shell), ' || exit 66\n    while IFS= read -r -d \'\' size && IFS= read -r -d \'\' name; do\n        found=$(stat -L -c %s -- "$', str(each.shell), '$name" 2> /dev/null) || {\n            echo "the data $', str(each.shell), '$name is not on $(hostname), but it was where the job was submitted;" \\\n                "request nodes that see it" >&2\n            exit 66\n        }\n        if [ "$found" != "$size" ]; then\n            echo "the data $', str(each.shell), '$name has $found bytes on $(hostname), but had $size when it was checked;" \\\n                "deploy again" >&2\n            exit 65\n        fi\n    done\n} < "$workspace/', str(each.path), '.view" || exit 66\n']
        else:
            out += [str(each.shell), '="$workspace/', str(each.path), '"\n']
        if each.packed:
            out += ['# Mounted in the container where the folder would be.\n', str(each.shell), '_image=$', str(each.shell), '.sqsh\nif ! [ -e "$', str(each.shell), '_image" ]; then\n    echo "the image $', str(each.shell), '_image of the data is not there; deploy again to make it" >&2\n    exit 66\nfi\n']
    if given['staging_path']:
        out += ['\n# The node\'s own scratch is nearer than what all nodes share; if it has no room, the shared data is used.\n# Others may write there too, so the folder is a new one that nobody else may enter.\nrm -rf "', str(given['staging_path']), '/modak-$(id -u)-$job_id."*\n']
        if given['parts_of']:
            out += ['# A rank reads every ', str(given['parts_of']), 'th file in the order of their names, as readers of shards divide them: a node\n# copies those of its ranks. The others are links to the originals, so that a script that divides them in another\n# way misses nothing; so are those for which a node has no room.\nbring_part() {\n    local number=0 left=0 name\n    while IFS= read -r -d \'\' name; do\n        mkdir -p "$(dirname "$2/$name")" || exit 1\n        if [ $((number++ % ', str(given['parts_of']), ' / ', str(given['job'].processes_per_node), ')) -ne "$SLURM_NODEID" ]; then\n            ln -s "$1/$name" "$2/$name" 2> /dev/null\n        elif cp "$1/$name" "$2/$name.part"; then\n            mv -fT "$2/$name.part" "$2/$name"\n        else\n            rm -f "$2/$name.part"\n            ln -s "$1/$name" "$2/$name" 2> /dev/null\n            left=$((left + 1))\n        fi\n    done < <(cd "$1" && find . -type f -printf \'%P\\0\' | LC_ALL=C sort -z)\n    [ "$left" -eq 0 ] || echo "$left files of $1 could not be copied to $(hostname); they are read from the original place" >&2\n}\n']
        if given['brings_all']:
            out += ['# A few files are sent from node to node; if there are many, each node copies them itself, and says so if it cannot.\nbring_all() {\n    local names\n    mapfile -d \'\' -t names < <(cd "$1" && find . -type f -printf \'%P\\0\')\n    if [ "$', str('{#names[@]}'), '" -gt ', str(given['broadcast']), ' ]; then\n        # shellcheck disable=SC2016 # a dollar there is for the other shell\n        ', str(given['everywhere']), 'sh -c \'cp -R "$1/." "$2/" || { echo "the data could not be copied to $(hostname)" >&2; exit 1; }\' sh "$1" "$2"\n        return\n    fi\n    # shellcheck disable=SC2016\n    ', str(given['everywhere']), 'sh -c \'cd "$1" && find . -type d -exec mkdir -p "$2/{}" ";"\' sh "$1" "$2" || return\n    for name in "${names[@]}"; do\n        sbcast --force "$1/$name" "$2/$name" || return\n    done\n}\n']
        if given['everywhere']:
            out += ['# Nodes may share one scratch after all: then the folder is there already, and belongs to the user.\n# shellcheck disable=SC2016 # a dollar there is for the other shell\nif mkdir -p "', str(given['staging_path']), '" && local_copy=$(mktemp -u "', str(given['staging_path']), '/modak-$(id -u)-$job_id.XXXXXX") &&\n    ', str(given['everywhere']), 'sh -c \'mkdir -p "${1%/*}" && { mkdir -m 700 "$1" 2> /dev/null || [ -O "$1" ]; }\' sh "$local_copy" &&\n']
        else:
            out += ['if mkdir -p "', str(given['staging_path']), '" && local_copy=$(mktemp -d "', str(given['staging_path']), '/modak-$(id -u)-$job_id.XXXXXX") &&\n']
        for loop_240, (each) in _looped(given['copied']):
            if each.below:
                out += ['    ', str(given['everywhere']), 'mkdir ', str(('-p ' if given['everywhere'] else '')), '"$local_copy', str(each.below), '" &&\n']
            if ((given['everywhere'] and (not each.packed)) and (each.staging == 'by-node')):
                out += ['    ', str(given['everywhere']), 'bash -c "$(declare -f bring_part); bring_part \\"\\$@\\"" bash "$', str(each.shell), '" "$local_copy', str(each.below), '"', str(('; then' if loop_240.last else ' &&')), '\n']
            elif (given['everywhere'] and (not each.packed)):
                out += ['    bring_all "$', str(each.shell), '" "$local_copy', str(each.below), '"', str(('; then' if loop_240.last else ' &&')), '\n']
            elif (not each.packed):
                out += ['    cp -R "$', str(each.shell), '/." "$local_copy', str(each.below), '/"', str(('; then' if loop_240.last else ' &&')), '\n']
            elif given['everywhere']:
                out += ['    sbcast --force "$', str(each.shell), '_image" "$local_copy', str(each.below), '/data.sqsh"', str(('; then' if loop_240.last else ' &&')), '\n']
            else:
                out += ['    cp "$', str(each.shell), '_image" "$local_copy', str(each.below), '/data.sqsh"', str(('; then' if loop_240.last else ' &&')), '\n']
        for each in given['copied']:
            out += ['    ', str(each.shell), str(('_image' if each.packed else '')), '=$local_copy', str(each.below), str(('/data.sqsh' if each.packed else '')), '\n']
        out += ['else\n    echo "the data could not be copied to ', str(given['staging_path']), '; it is read from $', str(given['copied'][0].shell), '"\n    [ -z "$local_copy" ] || ', str(given['everywhere']), 'rm -rf "$local_copy"\nfi\n']
    if (given['pre'] or given['post']):
        if given['data']:
            out += ['export MODAK_DATASET="$dataset"\n']
        for name, value in given['environment']:
            if (name == 'MODAK_DATASET'):
                out += ['export MODAK_DATASET=', str(value), '\n']
    for each in given['named']:
        out += ['export ', str(each.variable), '="$', str(each.shell), '"\n']
    for loop_275, (each) in _looped(given['mounted']):
        if loop_275.first:
            out += ['\n# Where the script looks for its data; what is there already is not touched.\nput_data() {\n    local place=code/$1\n    if [ -e "$place" ] && ! [ -L "$place" ]; then\n        echo "the data belongs at $1, but something else is there" >&2\n        exit 73\n    fi\n    if ! { mkdir -p "$(dirname "$place")" && ln -sfn "$2" "$place"; }; then\n        exit 73\n    fi\n}\n']
        out += ["# shellcheck disable=SC2016 # a dollar in a user's own name is only a dollar\nput_data ", str(shlex.quote(each.mount_as)), ' "$', str(each.shell), '"']
        if each.mounted_file:
            out += ['/', str(shlex.quote(each.mounted_file))]
        out += ['\n']
    out += [str(given['shell'](given['pre']))]
    if given['exports_nothing']:
        out += ['# what sbatch was told about its environment is not meant for srun\nexport SLURM_EXPORT_ENV=ALL\n']
    if (given['container'] and (given['entry'] != 'pyxis')):
        out += ['\nruntime=$(command -v ', str(given['runtimes'][0])]
        for each in given['runtimes'][1:]:
            out += [' || command -v ', str(each)]
        out += [') || {\n    echo "', str(' or '.join(given['runtimes'])), ' is not on the PATH of $(hostname)" >&2\n    exit 127\n}\n']
    if given['image']:
        out += ['image=', str(given['image']), '\nif ! [ -e "$image" ]; then\n    echo "the image $image is not there" >&2\n    exit 66\nfi\n']
    if given['seal']:
        out += ['# An image that was changed has another stamp; then all of it is compared with what was made.\ndigest=none stamp=\n[ -e "$workspace/', str(given['seal']), '" ] && read -r digest stamp < "$workspace/', str(given['seal']), '"\nif [ "$(stat -L -c \'%s %i %.9Y %.9Z\' "$image")" != "$stamp" ] &&\n    [ "$(sha256sum < "$image" | cut -d \' \' -f 1)" != "$digest" ]; then\n    echo "the image $image has changed since it was made (SHA-256 $digest), and is not run;" \\\n        "deploy again to make it again" >&2\n    exit 65\nfi\n']
    if given['signing_key']:
        out += ['if ! "$runtime" verify --key "', str(given['signing_key']), '.pub" "$image" > state/signature 2>&1; then\n    echo "the image $image is not signed with ', str(given['signing_key']), '.pub, and is not run:" >&2\n    cat state/signature >&2\n    exit 65\nfi\n']
    if given['scratch']:
        out += ['\n# What does not fit in memory is here while the training runs, in files without a name.\nscratch="', str(given['scratch']), '"\nmkdir -p "$scratch" || {\n    echo "the scratch $scratch of $(hostname) cannot be written to, but the state of the training does not fit in memory" >&2\n    exit 73\n}\n']
    if (given['entry'] and (given['entry'] != 'charliecloud')):
        _folders(out, given)
    if ((given['entry'] == 'podman') or (given['entry'] == 'docker')):
        _podman(out, given)
    elif (given['entry'] == 'charliecloud'):
        _charliecloud(out, given)
    elif (given['entry'] == 'enroot'):
        _enroot(out, given)
    elif (given['entry'] == 'pyxis'):
        _pyxis(out, given)
    def enter() -> str:
        out: list[str] = []
        if (given['entry'] == 'pyxis'):
            out += ['    srun --nodes=1 --ntasks=1 ${SLURM_CPUS_PER_TASK:+"--cpus-per-task=$SLURM_CPUS_PER_TASK"}\n    "${contained[@]}" --container-workdir="$PWD"\n']
        elif given['entry']:
            out += ['    bash "$deployment/state/contain.sh"\n']
        else:
            out += ['    "$runtime" exec\n']
            for flag in given['container_flags']:
                out += ['    ', str(flag), '\n']
            out += ['    --bind "$workspace"\n']
            for each in given['data']:
                if each.packed:
                    out += ['    --bind "$', str(each.shell), '_image:$', str(each.shell), ':image-src=/,ro"\n']
                else:
                    out += ['    --bind "$', str(each.shell)]
                    if (not (given['staging_path'] and each.is_copied)):
                        out += [':$', str(each.shell), ':ro']
                    out += ['"\n']
            for bind in given['binds']:
                out += ['    --bind ', str(shlex.quote(bind)), '\n']
            if given['scratch']:
                out += ['    --bind "$scratch"\n']
            out += ['    "$image"\n']
        return "".join(out)
    given['enter'] = enter
    if given['build']:
        out += ['\n# Built where it will run, by the compilers that it will run with.\nsources=$deployment/', str(('build' if given['build'].source else 'code')), '\n']
        if (given['build'].kind == 'git'):
            out += ['rm -rf "$sources"\ngit clone --quiet --depth 1 --recurse-submodules --shallow-submodules -- ', str(shlex.quote(given['build'].source)), ' "$sources" || exit 69\n']
        elif given['build'].source:
            out += ['mkdir -p "$sources"\narchive=$deployment/', str(shlex.quote(given['archive'])), '\naddress=', str(shlex.quote(given['build'].source)), '\nif command -v curl > /dev/null; then\n    curl --fail --silent --show-error --location --output "$archive" -- "$address"\nelif command -v python3 > /dev/null; then\n    python3 -c \'\nimport sys, urllib.request\ntry:\n    urllib.request.urlretrieve(*sys.argv[1:])\nexcept OSError as error:\n    sys.exit(f"{error}")\' "$address" "$archive"\nelse\n    wget --no-verbose --output-document="$archive" -- "$address"\nfi || {\n    echo "the sources at $address cannot be fetched on $(hostname)" >&2\n    exit 69\n}\n']
            if (given['build'].kind == 'file'):
                pass
            elif given['archive'].endswith('.zip'):
                out += ['unzip -q "$archive" -d "$sources" || exit 65\n']
            else:
                out += ['tar -x -f "$archive" -C "$sources" || exit 65\n']
            if (given['build'].kind == 'archive'):
                out += ['# most archives hold one folder\ninside=("$sources"/*)\n[ -z "${inside[1]:-}" ] && [ -d "${inside[0]}" ] && sources=${inside[0]}\n']
        out += ['cd "$sources" || exit 65\n# shellcheck disable=SC2016 # a dollar there is for the other shell\nbuilding=(\n']
        if given['container']:
            out += [str(given['enter']())]
        out += ['    bash -euc ', str(shlex.quote(given['build'].command)), '\n)\n"${building[@]}" || exit\ncd "$deployment" || exit 1\n']
    if ((given['launch'].slots or given['launch'].hosts) or given['launch'].lines):
        out += ['\nhosts=$deployment/state/hosts\n']
        if (given['scheduler'] == 'lsf'):
            out += ['# Launchers reach the other nodes through LSF itself, which counts what they start there.\nexport OMPI_MCA_plm_rsh_agent=blaunch PRTE_MCA_plm_ssh_agent=blaunch HYDRA_LAUNCHER=lsf I_MPI_HYDRA_BOOTSTRAP=lsf\n']
        if given['launch'].slots:
            out += [str(given['hosts']), ' > "$hosts"\n']
        elif given['launch'].lines:
            out += [str(given['hosts']), " | awk '!known[$0]++ { for (line = 0; line < ", str(given['launch'].lines), '; line++) print }\' > "$hosts"\n']
        else:
            out += ["# One line for each node, where the scheduler's own list has one for each core.\n", str(given['hosts']), " | awk '!known[$0]++' | sed 's/$/", str(given['launch'].hosts), '/\' > "$hosts"\n']
    out += ['\ncd code || exit 1\nunset PYTHONPATH PYTHONHOME\n']
    if given['built_program']:
        out += ['program=', str(shlex.quote(given['built_program'])), '\n[ -e "$sources/$program" ] && program=$sources/$program\n']
    if given['tuning']:
        _tuning(out, given)
    if ((not given['tuning']) or given['tuning'].trains):
        out += ["# shellcheck disable=SC2016 # a dollar in a user's own value is only a dollar\ncommand=(\n"]
        if (given['container'] and (not given['enters_first'])):
            out += [str(given['enter']())]
        out += ['    env\n    PYTHONNOUSERSITE=1\n    PYTHONUNBUFFERED=1\n    PYTHONHASHSEED="${PYTHONHASHSEED:-0}"\n    MODAK_LAUNCHED="$(date +%s.%N)"\n']
        if (not given['ranks']):
            out += ['    MODAK_METRICS="$deployment/metrics.json"\n']
        if (given['runtime'] and (not given['ranks'])):
            out += ['    MODAK_APPLIED="$deployment/applied.json"\n']
        if given['checkpoint']:
            out += ['    MODAK_CHECKPOINTS="$checkpoints"\n    MODAK_CHECKPOINT_EVERY=', str(given['checkpoint'].every), '\n    MODAK_STOP="$stop"\n']
        if given['scratch']:
            out += ['    MODAK_SCRATCH="$scratch"\n']
        if given['data']:
            out += ['    MODAK_DATASET="$dataset"\n']
        for each in given['named']:
            out += ['    ', str(each.variable), '="$', str(each.variable), '"\n']
        for variable, _ in given['after']:
            out += ['    ', str(variable), '="$', str(variable), '"\n']
        if given['tuning']:
            out += ['    "${environment[@]}"\n']
        else:
            for name, value in given['environment']:
                out += ['    ', str(name), '=', str(value), '\n']
        if given['is_program']:
            out += ['    sh -c \'PATH=$0:$PATH; exec "$@"\' "']
            if (given['build'] and given['build'].source):
                out += ['$sources:']
            out += ['$deployment/code"\n']
            for word in given['launch'].inside:
                out += ['    ', str(word), '\n']
            if given['built_program']:
                out += ['    "$program"\n']
            for word in given['command']:
                out += ['    ', str(word), '\n']
        else:
            if given['runtime']:
                out += ['    sh -c \'export PYTHONPATH="$0${PYTHONPATH:+:$PYTHONPATH}"; exec "$@"\' "$deployment/runtime"\n']
            for word in given['launch'].inside:
                out += ['    ', str(word), '\n']
            out += ['    ', str(given['python']), '\n    ', str(shlex.quote(given['script'])), '\n']
        if given['tuning']:
            out += ['    ${arguments[@]+"${arguments[@]}"}\n']
        else:
            for words in given['arguments']:
                out += ['    ', str(words), '\n']
        for word in given['words']:
            out += ['    ', str(word), '\n']
        out += [')\n']
        def first_failure() -> str:
            out: list[str] = []
            out += ['# Ranks that a launcher ends because another failed have other codes.\n[ "$code" -eq 0 ] || [ ! -e "$deployment/state/failed_rank" ] || read -r _ code _ < "$deployment/state/failed_rank"\n']
            return "".join(out)
        given['first_failure'] = first_failure
        if given['notes_cores']:
            _cores(out, given)
        if given['ranks']:
            _ranks(out, given)
        elif given['notes_cores']:
            out += ['{\n    declare -p deployment\n    declare -f note_cores\n    # shellcheck disable=SC2016 # it is the other shell\'s\n    echo \'note_cores "${OMPI_COMM_WORLD_RANK:-${PMI_RANK:-${PMIX_RANK:-${SLURM_PROCID:-0}}}}"\nexec "$@"\'\n} > "$deployment/state/rank.sh"\n']
        if given['limit']:
            out += ['timeout --kill-after=30 ', str((('"$((%d > SECONDS ? %d - SECONDS : 1))"' % (given['limit'], given['limit'])) if given['tuning'] else given['limit'])), ' ']
        out += [str(given['launcher']), str(('' if given['by_file'] else '"${command[@]}" ')), '&\ntraining=$!\ntrap \'kill -TERM "$training" 2> /dev/null; wait "$training"; exit 143\' TERM\n']
        if given['checkpoint']:
            if (given['scheduler'] == 'slurm'):
                out += ['trap \'ask &\' USR1\n[ ! -e "$stop" ] || ask &\n']
            else:
                out += ['(\n    timeout ', str(('$((%d > SECONDS ? %d - SECONDS : 1))' % (given['checkpoint'].after, given['checkpoint'].after))), ' tail --pid="$training" -f /dev/null\n    [ $? -ne 124 ] || ask\n) &\n']
            out += ['# a trapped signal ends a wait\nwhile kill -0 "$training" 2> /dev/null; do\n    wait "$training"\ndone\nwait "$training"\ncode=$?\n']
            if given['ranks']:
                out += ['[ "$code" -ne 0 ] || [ ! -e "$deployment/state/goes_on" ] || code=', str(given['checkpoint'].exit_code), '\n', str(given['first_failure']())]
            out += ['queue_again "$code"\n[ ! -e "$deployment/state/requeued" ] || exit "$code"\n(exit "$code")\n']
        else:
            out += ['wait "$training"\n']
            if given['ranks']:
                out += ['code=$?\n', str(given['first_failure']()), '(exit "$code")\n']
        if given['post']:
            out += ['export MODAK_EXIT_CODE=$?\n\ncd "$deployment/code" || exit 1\n(\n    set +u -e\n']
            for text in given['post']:
                out += ['    eval ', str(text), '\n']
            out += [')\nafter=$?\n[ "$MODAK_EXIT_CODE" -ne 0 ] || exit "$after"\n(exit "$MODAK_EXIT_CODE")\n']


def _charliecloud(out: list[str], given: Given) -> None:
    out += ['\nmounts=(\n    --bind="$workspace"\n    --bind="$HOME"\n']
    for each in given['data']:
        out += ['    --bind="$', str(each.shell), '"\n']
    for bind in given['binds']:
        out += ['    --bind=', str(shlex.quote(bind.removesuffix(':ro'))), '\n']
    if given['scratch']:
        out += ['    --bind="$scratch"\n']
    for flag in given['container_flags']:
        out += ['    ', str(flag), '\n']
    out += [')\n# ch-run serves the image\'s files while its program runs, and stops that when it is asked to end: so a shell inside asks\n# the program instead, and also reports its exit code if a signal ended it.\ncontain() {\n    export USER=${USER:-$(id -un)} # which ch-run wants\n    local running\n    # what the image sets overrides the job\'s environment, as with Apptainer; folders are the node\'s\n    local given=(--set-env --env-no-expand "--set-env=HOME=$HOME" ${TMPDIR:+"--set-env=TMPDIR=$TMPDIR"})\n    unset TMPDIR # which ch-run would use for its /tmp\n    # shellcheck disable=SC2016 # a dollar there is for the other shell\n    "$runtime" --write-fake "${given[@]}" "${mounts[@]}" --cd="$PWD" "$image" -- sh -c \'"$@" &\n        program=$!\n        trap "kill -TERM $program 2> /dev/null" TERM\n        while :; do\n            wait "$program"\n            code=$?\n            kill -0 "$program" 2> /dev/null || exit "$code"\n        done\' sh "$@" &\n    running=$!\n    trap \'pkill -TERM -P "$running"\' TERM\n    while kill -0 "$running" 2> /dev/null; do\n        wait "$running"\n    done\n    wait "$running"\n}\n{\n    declare -p runtime image mounts\n    declare -f contain\n    # shellcheck disable=SC2016\n    echo \'contain "$@"\'\n} > state/contain.sh\n']


def _checkpoint(out: list[str], given: Given) -> None:
    out += ['\n# Asks the training to save its state and end. If it does not end in time, it is ended, and continues from its last state.\nask() {\n    : > "$stop"\n    timeout ', str(given['checkpoint'].patience), ' tail --pid="$training" -f /dev/null\n    if [ $? -eq 124 ]; then\n        : > "$deployment/state/late"\n        kill -TERM "$training"\n        timeout ', str(given['checkpoint'].mercy), ' tail --pid="$training" -f /dev/null\n        [ $? -ne 124 ] || kill -KILL "$training"\n    fi\n} 2> /dev/null\n\n# Has the job run again after a training that was asked to end, or whose exit code says that it is to continue.\nqueue_again() {\n    cd "$deployment" || return\n    if [ "$1" -eq 0 ] || { [ "$1" -ne ', str(given['checkpoint'].exit_code), ' ] && ! [ -e state/late ]; }; then\n        return\n    fi\n    [ ! -e "$stop" ] || echo timeout > state/ended\n    if [ -z "$(ls checkpoints)" ]; then\n        echo "the training was stopped, but has saved nothing to continue from" >&2\n    elif [ "$run" -gt ', str(given['checkpoint'].requeue), ' ]; then\n        echo "the training was stopped, and its job has been queued again as often as allowed: ', str(given['checkpoint'].requeue), '" >&2\n    else\n        echo "run $run was stopped; the job is queued again" >&2\n']
    if (given['scheduler'] == 'slurm'):
        out += ['        trap \'\' TERM\n        : > state/requeued\n        scontrol requeue "$job_id" && return\n']
    elif (given['scheduler'] == 'lsf'):
        out += ['        # it ends the job for that, but this script has to finish\n        trap \'\' TERM INT\n        : > state/requeued\n        brequeue "$job_id" && return\n']
    elif (given['scheduler'] == 'torque'):
        out += ['        # users may not use qrerun: another job takes the place of this one when it has ended\n        trap \'\' TERM\n        : > state/requeued\n        again=(qsub -N "${PBS_JOBNAME:-$SLURM_JOB_NAME}" -W "depend=afterany:$job_id" job.sh)\n        # a server may take no jobs from nodes (allow_node_submit): then the host that submitted this one does\n        there=$(printf \'cd %q && env PATH=%q\' "$PWD" "${PBS_O_PATH:-$PATH}")$(printf \' %q\' "${again[@]}")\n        next=$("${again[@]}" || { [ -n "${PBS_O_HOST:-}" ] && ssh -n -o BatchMode=yes -o ConnectTimeout=10 "$PBS_O_HOST" "$there"; }) &&\n            submitted "$next" && return\n']
    else:
        out += ['        trap - TERM INT USR1\n        exec bash "$deployment/${0##*/}"\n']
    out += ['        rm -f state/requeued\n        echo "the job could not be queued again; what the training has saved stays in $deployment/checkpoints" >&2\n    fi\n}\n']


def _cores(out: list[str], given: Given) -> None:
    out += ['\n# Notes which cores the kernel lets a rank use, which shows the ranks that have too few.\nnote_cores() {\n    mkdir -p "$deployment/state/cores"\n    printf \'%s %s %s\\n\' "${SLURMD_NODENAME:-$(hostname)}" ', str(given['threads']), ' \\\n        "$(sed -n \'s/^Cpus_allowed_list:[[:space:]]*//p\' /proc/self/status)" > "$deployment/state/cores/$1"\n} 2> /dev/null\n']


def _enroot(out: list[str], given: Given) -> None:
    out += ['\nfor each in squashfuse fuse-overlayfs; do\n    if ! command -v "$each" > /dev/null; then\n        echo "$each is not on the PATH of $(hostname): enroot needs it to start an image from its file" >&2\n        exit 127\n    fi\ndone\n# What enroot needs for a container: its environment, in which the image\'s values override the job\'s as with Apptainer,\n# its folders, and what is started in it instead of the image\'s entry point.\n{\n    declare -p folders\n    # shellcheck disable=SC2016,SC2028 # a dollar and a backslash there are for the other shell\n    echo \'environ() {\n    local name own\n    own=$(cut -d = -f 1 "$ENROOT_ROOTFS/etc/environment" 2> /dev/null)\n    for name in $(compgen -e | grep -vE "^(HOSTNAME|SHLVL|PWD|OLDPWD|_|BASH.*|SHELLOPTS|ENROOT_.*)$" | grep -vxF "${own:-=}"); do\n        case ${!name} in\n            *$\'"\'\\\\n\'"\'*) ;; # which its environment file cannot hold\n            *) echo "$name=${!name}" ;;\n        esac\n    done\n}\nmounts() {\n    local each from to how\n    for each in "${folders[@]}"; do\n        IFS=: read -r from to how <<< "$each"\n        printf "%s %s none x-create=auto,rbind%s\\n" "${from// /\\\\040}" "${to// /\\\\040}" "${how:+,$how}"\n    done\n}\nrc() {\n    cd "$MODAK_FOLDER" && exec "$@"\n}\'\n} > state/enroot.conf\n{\n    declare -p runtime image deployment\n    # shellcheck disable=SC2016\n    echo \'export MODAK_FOLDER=$PWD ENROOT_LOGIN_SHELL=no', str((' NVIDIA_DRIVER_CAPABILITIES=compute,utility' if given['container_flags'] else '')), '\nexec "$runtime" start --conf "$deployment/state/enroot.conf" ']
    for flag in given['container_flags']:
        out += [str(flag), ' ']
    out += ['-- "$image" "$@"\'\n} > state/contain.sh\n']


def _folders(out: list[str], given: Given) -> None:
    out += ['\n# What the container sees of the machine, where it sees it, and how.\nfolders=(\n    "$workspace:$workspace"\n    "$HOME:$HOME"\n    /tmp:/tmp\n']
    for each in given['data']:
        out += ['    "$', str(each.shell), ':$', str(each.shell), str(('' if (given['staging_path'] and each.is_copied) else ':ro')), '"\n']
    for bind in given['binds']:
        out += ['    ', str(shlex.quote((bind if (':' in bind) else ((bind + ':') + bind)))), '\n']
    if given['scratch']:
        out += ['    "$scratch:$scratch"\n']
    out += [')\n']


def _hosts(out: list[str], given: Given) -> None:
    out += ['\n# The other hosts, which this one enters by ssh as its user, with keys that work without prompting. Whatever runs on one\n# has a time limit: a host may be there and not answer.\nhosts=(']
    for loop_4, (host) in _looped(given['ranks'].hosts):
        out += [str(shlex.quote(host)), str(('' if loop_4.last else ' '))]
    out += [')\nfar=(ssh -o BatchMode=yes -o ConnectTimeout=20 -o ServerAliveCountMax=4 -o "ServerAliveInterval=$(((', str(given['ranks'].timeout), ' + 60) / 4))")\nhome=$(hostname)\n\n# Quotes a word for a user\'s shell, whichever that is.\nword() {\n    printf %s "\'${1//"\'"/"\'\\\\\'\'"}\'"\n}\n\n# Runs a function or a command of this script on a host, as its input: csh, as a login shell, takes no word of several lines.\nthere() {\n    local host=$1 text\n    shift\n    text=$(printf \'%q \' "$@")\n    ! declare -F "$1" > /dev/null || text="$(declare -f "$1"); $text"\n    timeout --kill-after=5 120 "${far[@]}" "$host" bash -s <<< "$text"\n}\n\n# A host as ssh enters it.\nplace() {\n    "${far[@]}" -G "$1" 2> /dev/null | awk -v name="$1" \'{ of[$1] = $2 } END { print name " (" of["user"] "@" of["hostname"] ":" of["port"] ")" }\'\n}\n\n# On another host: makes room for what is copied there; says whether it shares the first one\'s files.\nmake_room() {\n    local deployment=$1 token=$2 runtime=$3 path\n    shift 3\n    if [ "$(cat "$deployment/state/token" 2> /dev/null)" = "$token" ]; then\n        echo shared\n        return\n    fi\n    if [ -e "$deployment/state/claim" ]; then\n        echo "it has a deployment of its own in $deployment: undeploy that, or give one of the two another name" >&2\n        return 73\n    fi\n    for path in "$@"; do\n        mkdir -p "$path" || return 73\n    done\n    command -v rsync > /dev/null || {\n        echo "rsync is not there" >&2\n        return 69\n    }\n    [ -z "$runtime" ] || [ -x "$runtime" ] || {\n        echo "$runtime is not there" >&2\n        return 69\n    }\n    : > "$deployment/state/brought"\n}\n\n# Copies files to a host or from it by rsync. There it works in a folder, because the shell of an old rsync would split a\n# path at spaces, and any would expand patterns; what a user\'s own cd writes would be taken for rsync\'s answer.\nwith_host() {\n    local host=$1 by at\n    at=$(word "$2")\n    shift 2\n    printf -v by \'%q \' "${far[@]}"\n    ${within[@]+"${within[@]}"} rsync -a --timeout=60 --rsh "$by" --rsync-path "cd $at > /dev/null && rsync" "$@"\n}\n\n# Copies to a host everything its ranks read, to the same places as here; what it already has stays.\nbring() {\n    local host=$1 said path\n    if ! said=$(there "$host" true 2>&1); then\n        echo "the host $(place "$host") cannot be entered from $home: ${said##*$\'\\n\'}; ranks are started there by ssh, which needs" \\\n            "a key that works without prompting, and a host key that is known here" >&2\n        return 68\n    fi\n    said=$(there "$host" make_room "$deployment" "$token" "${runtime:-}" "$deployment/state" "$deployment/ranks" "${brought[@]%/*}" 2>&1) || {\n        echo "the host $(place "$host") cannot take part: ${said##*$\'\\n\'}" >&2\n        return 73\n    }\n    [ "${said##*$\'\\n\'}" != shared ] || return 0\n    for path in "${brought[@]}"; do\n        [ -e "$path" ] || continue\n        said=$(with_host "$host" "${path%/*}" --delete "$path" "$host:./" 2>&1) || {\n            echo "$path could not be copied to the host $(place "$host"): ${said##*$\'\\n\'}" >&2\n            return 68\n        }\n    done\n    for path in ${present[@]+"${present[@]}"}; do\n        there "$host" test -e "$path" || {\n            echo "$path is not on the host $(place "$host"), but it is here; name hosts that have it" >&2\n            return 66\n        }\n    done\n    said=$(with_host "$host" "$deployment/state" "$deployment/state/rank.sh" "$host:./" 2>&1) || {\n        echo "the host $(place "$host") cannot take part: ${said##*$\'\\n\'}" >&2\n        return 68\n    }\n}\n\n# When another host\'s ranks have ended, what they wrote is copied here, and only images and data stay there.\ntidy() {\n    if [ -e "$1/state/brought" ] && ! [ -e "$1/state/claim" ]; then\n        rm -rf "$1"\n    fi\n}\ncollect() {\n    local host within=(timeout --kill-after=5 300)\n    for host in "${hosts[@]}"; do\n        {\n            with_host "$host" "$deployment" --ignore-missing-args "$host:./ranks" "$deployment/" &&\n                with_host "$host" "$deployment/state" --ignore-missing-args "$host:./cores" "$deployment/state/" &&\n                there "$host" tidy "$deployment"\n        } < /dev/null || echo "what the ranks on the host $host wrote could not be copied back" >&2\n    done\n}\n\n# Starts a rank on its host, and watches it. Its output comes over the same connection, at whose other end the rank is ended\n# when nothing more is heard from here.\nconnect() {\n    local rank=$1 host=${hosts[$1 / ', str(given['ranks'].each), ' - 1]} own=$deployment/ranks/$1 line=$deployment/state/line-$1 child beat code lost name asked=\'\'\n    mkdir -p "$own"\n    rm -f "$line" "$own/lost"\n    mkfifo "$line" || exit 73\n    # shellcheck disable=SC2094 # both ends of a pipe\n    exec 5<> "$line" 6< "$line" 7> "$line" 5>&-\n    rm -f "$line"\n    (\n        trap \'\' TERM # it ends when its input does\n        exec "${far[@]}" "$host" "bash $(word "$deployment/state/rank.sh") $rank" <&6 6<&- 7>&- >> "$own/output.log" 2>> "$own/error.log"\n    ) &\n    child=$!\n    (\n        nap=\'\'\n        trap - USR2\n        trap \'kill "$nap"; exit\' TERM # or its sleep would be there for up to 5 s\n        for name in $(compgen -e | grep -vE \'^(SSH_|XDG_|DBUS_)|^(HOME|USER|LOGNAME|SHELL|HOSTNAME|PWD|OLDPWD|SHLVL|TERM|DISPLAY|_)$\'); do\n            printf \'export %s=%q\\n\' "$name" "${!name}"\n        done\n        printf \'export MODAK_JOB=%q\\n\' "$job_id $host" # by which its processes are known there\n        echo begin\n        while\n            sleep 5 > /dev/null &\n            nap=$!\n            wait "$nap"\n        do\n            echo\n        done\n    ) >&7 6<&- 7>&- 2> /dev/null &\n    beat=$!\n    exec 6<&- 7>&-\n    trap \'asked=1; kill "$beat" 2> /dev/null\n        { timeout 45 tail --pid="$child" -f /dev/null || kill -KILL "$child"; } 2> /dev/null &\' TERM\n    while kill -0 "$child" 2> /dev/null; do\n        wait "$child"\n    done\n    wait "$child"\n    code=$?\n    kill "$beat" 2> /dev/null\n    if [ "$code" -eq 255 ] && [ -z "$asked" ]; then\n        echo "the connection from $home to the host $(place "$host"), on which rank $rank ran, broke" | tee -a "$own/error.log" >&2\n        code=68\n    elif [ "$code" -eq 68 ]; then\n        lost=$(there "$host" cat "$deployment/state/failed_rank" 2> /dev/null)\n    fi\n    if [ "$code" -ne 0 ] && [ "$code" -ne 143 ] && [ -z "$asked" ]; then\n        (set -o noclobber && echo "${lost:-$rank $code $host}" > "$deployment/state/failed_rank") 2> /dev/null\n    fi\n    [ "$code" -eq 0 ] || kill -USR2 $$\n    exit "$code"\n}\n\n# At the other end: the rank has a session of its own, of which nothing remains when it ends.\nfar_rank() {\n    local child watcher code line told=\'\'\n    exec 3<&0 < /dev/null\n    while IFS= read -r -t ', str(given['ranks'].timeout), ' line <&3 && [ "$line" != begin ]; do\n        told+=$line$\'\\n\'\n    done\n    eval "$told"\n    setsid bash "$deployment/state/rank.sh" "$1" here 3<&- &\n    child=$!\n    {\n        while read -r -t $((', str(given['ranks'].timeout), ' + 60)) <&3; do\n            :\n        done\n        kill -TERM "$child"\n    } > /dev/null 2>&1 &\n    watcher=$!\n    exec 3<&-\n    wait "$child"\n    code=$?\n    {\n        kill "$watcher"\n        kill -KILL -- "-$child"\n        pkill -KILL -s "$child" # those of its session that have groups of their own\n    } 2> /dev/null\n    exit "$code"\n}\n\ntoken="$job_id $home $RANDOM$RANDOM$RANDOM"\necho "$token" > "$deployment/state/token"\n# What is below the workspace is copied; what the target has elsewhere must be there already.\nbrought=("$deployment/code" "$deployment/runtime" "$deployment/checkpoints")\npresent=()\nfor path in ']
    if given['image']:
        out += ['"$image"']
    for each in given['data']:
        out += [' "$', str(each.shell), str(('_image' if each.packed else '')), '"']
    out += ['; do\n    case $path in\n        "${deployment%/deployments/*}"/*) brought+=("$path") ;;\n        *) present+=("$path") ;;\n    esac\ndone\n']


def _podman(out: list[str], given: Given) -> None:
    out += ['\n# Loads the image from its file into the engine\'s own store, unless it is there: its name there is the digest of its\n# configuration, which the file contains. Each node of a job may have a store of its own.\narchive=$image\nimage=$(tar -x -O -f "$archive" manifest.json 2> /dev/null | grep -o \'"Config": *"[^"]*\' | grep -o -m 1 \'[0-9a-f]\\{64\\}\')\nif [ -z "$image" ] || ! "$runtime" image ', str(given['known']), '; then\n    loaded=$("$runtime" load --quiet --input "$archive") || exit 66\n    image=', str(('${loaded##*: }' if (given['entry'] == 'docker') else '${image:-${loaded##*: }}')), '\nfi\n', 'own=$("$runtime" image inspect --format ', str("'{{range .Config.Env}}{{println .}}{{end}}'"), ' "$image" | cut -d = -f 1)\nown=$\'HOSTNAME\\nSHLVL\\nPWD\\nOLDPWD\\n_\\n\'$own\n']
    if (given['entry'] == 'docker'):
        out += ['# The daemon runs as root, unless it is the user\'s own, where root is the user: what is written must belong to the user.\nuser=(--user "$(id -u):$(id -g)")\nfor each in $(id -G); do\n    user+=(--group-add "$each")\ndone\n[[ $("$runtime" info --format ', str("'{{.SecurityOptions}}'"), ') != *name=rootless* ]] || user=()\n']
    out += ['mounts=("${folders[@]/#/--volume=}"', str((' "${user[@]}"' if (given['entry'] == 'docker') else ''))]
    for flag in given['container_flags']:
        out += [' ', str(flag)]
    out += [')\n\n# A container is not a child of this job: one that a killed job left behind is ended before another runs, and whatever\n# kills this job, a guard ends its container.\nend_containers() {\n    "$1" ps --all --quiet --filter "label=modak.deployment=$2" | xargs --no-run-if-empty "$1" rm --force\n}\nend_containers "$runtime" "$deployment" > /dev/null\n# shellcheck disable=SC2016 # a dollar there is for the other shell\nsetsid bash -c "$(declare -f end_containers)"\'; tail --pid="$1" -f /dev/null; end_containers "$2" "$3"\' \\\n    guard "$$" "$runtime" "$deployment" > /dev/null 2>&1 < /dev/null 3>&- 4>&- &\n{\n    declare -p runtime archive image own mounts deployment\n    # shellcheck disable=SC2016\n    echo \'"$runtime" image ', str(given['known']), ' || "$runtime" load --quiet --input "$archive" > /dev/null || exit 66\nmapfile -t names < <(compgen -e | grep -vxF "$own")\nexec "$runtime" run --rm --init --pull=never --network=host --ipc=host --security-opt=label=disable --entrypoint= \\\n    --label "modak.deployment=$deployment" --workdir "$PWD" "${names[@]/#/--env=}" "${mounts[@]}" -- "$image" "$@"\'\n} > state/contain.sh\n']


def _pods(out: list[str], given: Given) -> None:
    out += ['\n# This is one of ', str(given['pods']), ' Pods, which begin when all of them are there. The first then runs the job; the others start their\n# ranks when it says so, again whenever it continues, and end as it does.\nif ! [ "${JOB_COMPLETION_INDEX:-none}" -lt ', str(given['pods']), ' ] 2> /dev/null; then\n    echo "the cluster does not tell this Pod which of ', str(given['pods']), ' it is: its Jobs have no completionMode" >&2\n    exit 64\nfi\ntrap \'exit 143\' TERM\n# Each notes there which first Pod it belongs to: one that replaces another has another name, and waits for them again.\npods=$deployment/state/pods/$job_id\nmkdir -p "$pods" || exit 73\n# A network file system remembers that a file was missing until the folder is read again.\nlook() { ls "$deployment/state" "$pods" > /dev/null 2>&1; }\nif [ "$JOB_COMPLETION_INDEX" -gt 0 ]; then\n    launch=none ranks=\n    trap \'[ -z "$ranks" ] || { kill -TERM "$ranks" 2> /dev/null; wait "$ranks"; }; exit 143\' TERM\n    while\n        look\n        code=$(cat state/finished 2> /dev/null)\n        [ -z "$code" ]\n    do\n        first=$(cat "$pods/0" 2> /dev/null)\n        [ "$first" = "$(cat "$pods/$JOB_COMPLETION_INDEX" 2> /dev/null)" ] || echo "$first" > "$pods/$JOB_COMPLETION_INDEX"\n        owner=\n        { read -r _ owner next < state/rank.sh; } 2> /dev/null\n        if [ "$owner" = "$job_id" ] && [ "$next" != "$launch" ]; then\n            launch=$next\n            bash state/rank.sh &\n            ranks=$!\n            wait "$ranks"\n            ranks=\n        fi\n        sleep 1\n    done\n    exit "$code"\nfi\necho "$MODAK_POD" > "$pods/0" || exit 73\nwhile\n    look\n    there=0\n    for each in "$pods"/[0-9]*; do\n        [ "$(cat "$each")" != "$MODAK_POD" ] || there=$((there + 1))\n    done\n    [ "$there" -lt ', str(given['pods']), ' ]\ndo\n    if [ "$SECONDS" -ge ', str(given['patience']), ' ]; then\n        echo "only $there of ', str(given['pods']), ' Pods started within ', str(given['patience']), ' s; the others have no room, or do not start" >&2\n        exit 69\n    fi\n    sleep 1\ndone\nSECONDS=0\n# The ranks in other Pods also get what the site\'s and the user\'s lines export.\ndeclare -A given\nfor name in $(compgen -e); do\n    given[$name]=${!name}\ndone\n']


def _pyxis(out: list[str], given: Given) -> None:
    out += ["\n# Slurm's plugin runs what srun starts in the container, with the job's environment except for what the image itself sets.\n", str(('export NVIDIA_VISIBLE_DEVICES=all NVIDIA_DRIVER_CAPABILITIES=compute,utility\n' if given['container_flags'] else '')), 'contained=(\n    --container-image="$image"\n    --container-mounts="$(IFS=, && echo "${folders[*]}")"\n    --no-container-entrypoint\n']
    for flag in given['container_flags']:
        out += ['    ', str(flag), '\n']
    out += [')\n']


def _ranks(out: list[str], given: Given) -> None:
    out += ['\n# Where the ranks meet: at the first of them, at an address of its node that the others reach.\n']
    if (given['job'].nodes == 1):
        out += ['MASTER_ADDR=127.0.0.1\n']
    elif given['ranks'].interface:
        out += ['MASTER_ADDR=$(ip -o -4 addr show dev ', str(given['ranks'].interface), ' | awk \'{ sub("/.*", "", $4); print $4; exit }\')\nif [ -z "$MASTER_ADDR" ]; then\n    echo "$(hostname) has no IPv4 address on ', str(given['ranks'].interface), ', where the ranks are to meet, but on:" \\\n        "$(ip -o -4 addr | awk \'{ print $2 }\' | sort -u | tr \'\\n\' \' \')" >&2\n    exit 68\nfi\n']
    elif given['pods']:
        out += ['MASTER_ADDR=${MODAK_POD_ADDRESS:?the cluster does not tell the first Pod its address}\n']
    else:
        if given['ranks'].hosts:
            out += ['other=']
            for loop_16, (host) in _looped(given['ranks'].hosts):
                out += [str((shlex.quote(host) if loop_16.last else ''))]
            out += ['\naddress=$(ssh -G "$other" 2> /dev/null | awk \'$1 == "hostname" { print $2 }\')\n']
        else:
            out += ['other=$(', str(given['hosts']), ' | tail -n 1)\naddress=$(scontrol --oneliner show node "$other" 2> /dev/null | sed -n \'s/.* NodeAddr=\\([^ ]*\\).*/\\1/p\')\n']
        out += ['address=$(getent ahostsv4 "${address:-$other}" | awk \'{ print $1; exit }\')\nMASTER_ADDR=$(ip -o route get "${address:-none}" 2> /dev/null | sed -n \'s/.* src \\([^ ]*\\).*/\\1/p\')\nMASTER_ADDR=${MASTER_ADDR:-$(getent ahostsv4 "$(hostname)" | awk \'$1 !~ /^127\\./ { print $1; exit }\')}\nif [ -z "$MASTER_ADDR" ]; then\n    echo "$(hostname) has no route to ${address:-$other}, so its ranks cannot meet those of $other;" \\\n        "name the network to use: distributed: { interface: NAME }" >&2\n    exit 68\nfi\n']
    out += ['MASTER_PORT=$((20000 + $(cksum <<< "$job_id" | cut -d \' \' -f 1) % 10000))\nwhile (: < "/dev/tcp/$MASTER_ADDR/$MASTER_PORT") 2> /dev/null; do\n    MASTER_PORT=$((MASTER_PORT + 1))\ndone\n']
    if given['ranks'].cores:
        out += ['\n# Keeps a rank on its own part of the cores that the job may use, if there are enough.\nown_cores() {\n    local allowed own\n    mapfile -t allowed < <(sed -n \'s/^Cpus_allowed_list:[[:space:]]*//p\' /proc/self/status | tr , \'\\n\' |\n        while IFS=- read -r first last; do seq "$first" "${last:-$first}"; done)\n    own=("${allowed[@]:LOCAL_RANK * ', str(given['ranks'].cores), ':', str(given['ranks'].cores), '}")\n    if [ -n "${own[', str((given['ranks'].cores - 1)), ']:-}" ]; then\n        taskset -c -p "$(IFS=,; echo "${own[*]}")" "$BASHPID" > /dev/null\n    fi\n}\n']
    if given['ranks'].tells_all:
        out += ['\n# Tells a rank where all of them are, in TensorFlow\'s form: each writes its own address where all nodes can see it.\nrm -rf "$deployment/state/workers"\nmeet() {\n    local folder=$deployment/state/workers own=$MASTER_ADDR port=$((MASTER_PORT + RANK)) deadline=$((SECONDS + ', str(given['ranks'].timeout), ')) each all=\'\'\n    if [ "$NODE_RANK" -gt 0 ]; then\n        own=$(ip -o route get "$MASTER_ADDR" 2> /dev/null | sed -n \'s/.* src \\([^ ]*\\).*/\\1/p\')\n    fi\n    while (: < "/dev/tcp/$own/$port") 2> /dev/null; do\n        port=$((port + WORLD_SIZE))\n    done\n    mkdir -p "$folder" && echo "$own:$port" > "$folder/$RANK.part" && mv "$folder/$RANK.part" "$folder/$RANK"\n    for ((each = 0; each < WORLD_SIZE; each++)); do\n        until ls "$folder" > /dev/null && [ -s "$folder/$each" ]; do\n            if [ "$SECONDS" -ge "$deadline" ]; then\n                echo "rank $each has not said where it is within ', str(given['ranks'].timeout), ' s" >&2\n                exit 68\n            fi\n            sleep 0.2\n        done\n        all+=", \\"$(cat "$folder/$each")\\""\n    done\n    export TF_CONFIG="{\\"cluster\\": {\\"worker\\": [${all:2}]}, \\"task\\": {\\"type\\": \\"worker\\", \\"index\\": $RANK}}"\n}\n']
    out += ["\n# Becomes one of the ranks, whoever started it, and notes which of them failed first.\nrank() {\n    local own=$deployment child code device lost asked=''", str((' devices' if given['ranks'].devices else '')), str((' name' if given['cleans'] else '')), '\n    export MASTER_ADDR MASTER_PORT WORLD_SIZE=', str(given['ranks'].count), ' LOCAL_WORLD_SIZE=', str(given['ranks'].each), '\n    export MODAK_STRATEGY=', str((given['ranks'].strategy if given['ranks'].strategy else '""')), ' MODAK_RENDEZVOUS_TIMEOUT=', str(given['ranks'].timeout), '\n']
    if given['pods']:
        out += ['    export LOCAL_RANK=$1 NODE_RANK=$JOB_COMPLETION_INDEX RANK=$((JOB_COMPLETION_INDEX * LOCAL_WORLD_SIZE + $1))\n']
    elif given['ranks'].hosts:
        out += ['    export RANK=$1 LOCAL_RANK=$(($1 % ', str(given['ranks'].each), ')) NODE_RANK=$(($1 / ', str(given['ranks'].each), '))\n']
    elif given['ranks'].is_local:
        out += ['    export RANK=$1 LOCAL_RANK=$1 NODE_RANK=0\n']
    else:
        out += ['    export RANK LOCAL_RANK NODE_RANK\n    RANK=${OMPI_COMM_WORLD_RANK:-${PMI_RANK:-', str(('${LSF_PM_TASKID:+$((LSF_PM_TASKID - 1))}' if (given['scheduler'] == 'lsf') else '${SLURM_PROCID:-}')), '}}\n    if ! [ "${RANK:-none}" -lt "$WORLD_SIZE" ] 2> /dev/null; then\n        echo "the launcher does not tell this process which of ', str(given['ranks'].count), ' ranks it is: it says ${RANK:-nothing}" >&2\n        exit 64\n    fi\n    LOCAL_RANK=${OMPI_COMM_WORLD_LOCAL_RANK:-${MPI_LOCALRANKID:-$((RANK % LOCAL_WORLD_SIZE))}}\n    NODE_RANK=$((RANK / LOCAL_WORLD_SIZE))\n']
    out += ['    shift\n    ', str(('own_cores; ' if given['ranks'].cores else '')), 'note_cores "$RANK"', str(('; meet' if given['ranks'].tells_all else '')), '\n    # The rest of what torchrun sets, and what Lightning, Accelerate and JAX need, lest they assume one process.\n    export GROUP_RANK=$NODE_RANK GROUP_WORLD_SIZE=', str(given['job'].nodes), ' ROLE_RANK=$RANK ROLE_WORLD_SIZE=$WORLD_SIZE\n    export TORCHELASTIC_RUN_ID=$MASTER_PORT TORCHELASTIC_RESTART_COUNT=0 TORCHELASTIC_MAX_RESTARTS=0\n    export PL_TRAINER_NUM_NODES=', str(given['job'].nodes), ' PL_TRAINER_DEVICES=', str(given['ranks'].each), ' LT_NUM_NODES=', str(given['job'].nodes), ' LT_DEVICES=', str(given['ranks'].each), '\n    export JAX_COORDINATOR_ADDRESS="$MASTER_ADDR:$MASTER_PORT"', str(('' if given['ranks'].accelerators else ' ACCELERATE_USE_CPU=true')), '\n']
    if given['ranks'].devices:
        out += ['    # One accelerator each, which is then the script\'s first.\n    IFS=, read -r -a devices <<< "$', str((((('{' + given['ranks'].devices) + ':-') + given['ranks'].all_devices) + '}')), '"\n    export ', str(given['ranks'].devices), '="${devices[LOCAL_RANK % $', str('{#devices[@]}'), ']}"\n']
    if given['ranks'].interface:
        out += ['    device=', str(given['ranks'].interface), '\n']
    else:
        out += ['    device=$(ip -o -4 addr 2> /dev/null | awk -v own="$MASTER_ADDR/" \'index($4, own) == 1 { print $2; exit }\')\n    device=${device:-$(ip -o route get "$MASTER_ADDR" 2> /dev/null | sed -n \'s/.* dev \\([^ ]*\\).*/\\1/p\')}\n']
    out += ['    if [ -n "$device" ]; then\n        export GLOO_SOCKET_IFNAME="${GLOO_SOCKET_IFNAME:-$device}" NCCL_SOCKET_IFNAME="${NCCL_SOCKET_IFNAME:-$device}"\n    fi\n    if [ "$RANK" -gt 0 ]; then\n        own=$deployment/ranks/$RANK\n']
    if given['ranks'].hosts:
        out += ['        # what a rank on another host writes comes here over its connection\n        mkdir -p "$own" && [ "$NODE_RANK" -gt 0 ] || exec >> "$own/output.log" 2>> "$own/error.log"\n']
    else:
        out += ['        mkdir -p "$own" && exec >> "$own/output.log" 2>> "$own/error.log"\n']
    out += ['    fi\n    rm -f "$own/lost" "$own/came_to_its_end"\n    export MODAK_METRICS="$own/metrics.json" MODAK_APPLIED="$own/applied.json"\n']
    if given['cleans']:
        out += ["    # The container gets nothing else of the job's environment.\n    for name in $(compgen -e | grep -E '^((GROUP_|ROLE_|LOCAL_|NODE_)?(RANK|WORLD_SIZE)|MASTER_|TORCHELASTIC_|PL_TRAINER_|LT_|JAX_)' \\\n        ) GLOO_SOCKET_IFNAME NCCL_SOCKET_IFNAME ACCELERATE_USE_CPU MODAK_STRATEGY MODAK_RENDEZVOUS_TIMEOUT MODAK_METRICS \\\n        MODAK_APPLIED", str((' TF_CONFIG' if given['ranks'].tells_all else '')), str(((' ' + given['ranks'].devices) if given['ranks'].devices else '')), '; do\n        [ -z "${!name:-}" ] || export "APPTAINERENV_$name=${!name}" "SINGULARITYENV_$name=${!name}"\n    done\n']
    out += ['    "$@" &\n    child=$!\n    trap \'asked=1; kill -TERM "$child" 2> /dev/null\n        { timeout 30 tail --pid="$child" -f /dev/null || kill -KILL "$child"; } 2> /dev/null &\' TERM\n    while kill -0 "$child" 2> /dev/null; do\n        wait "$child"\n    done\n    wait "$child"\n    code=$?\n    if [ "$code" -eq 134 ] && [ -e "$own/came_to_its_end" ]; then\n        echo "modak: rank $RANK was aborted while it ended, after its script had finished: this is not a failure" >&2\n        code=0\n    fi\n']
    if given['checkpoint']:
        out += ['    # Launchers end all ranks when one does not end with 0.\n    if [ "$code" -eq ', str(given['checkpoint'].exit_code), ' ]; then\n        : > "$deployment/state/goes_on"\n        exit 0\n    fi\n']
    out += ['    if [ "$code" -ne 0 ] && [ "$code" -ne 143 ] && [ -z "$asked" ]; then\n        # One that ends because of another says which.\n        lost=$(cat "$own/lost" 2> /dev/null)\n        (set -o noclobber && echo "${lost:-$RANK $code ${SLURMD_NODENAME:-$(hostname)}}" > "$deployment/state/failed_rank") 2> /dev/null\n    fi\n']
    if given['ranks'].hosts:
        out += ['    [ "$code" -eq 0 ] || [ "$NODE_RANK" -gt 0 ] || kill -USR2 $$\n']
    elif given['ranks'].is_local:
        out += ['    [ "$code" -eq 0 ] || kill -USR2 $$\n']
    out += ['    exit "$code"\n}\n']
    if given['ranks'].is_local:
        out += ['\n']
        if given['pods']:
            out += ['# Whether the ranks of all Pods are still one training: none has failed, and the first Pod is the one that they began with.\ntogether() {\n    ls "$deployment/state" "$launched" > /dev/null 2>&1 && ! [ -e "$deployment/state/failed_rank" ] &&\n        { ! [ -s "$launched/began-0" ] || [ "$(cat "$launched/began-0")" = "$(cat "${launched%/*}/0")" ]; }\n}\n\n# Starts those of this Pod, and ends them when one fails in any Pod. A Pod that replaces another does not begin its ranks\n# again: the ranks of the others would not know them.\nranks() {\n    local each code=0 ended=\'\' pids=() codes watching\n    if ! (set -o noclobber && echo "$MODAK_POD" > "$launched/began-$JOB_COMPLETION_INDEX") 2> /dev/null; then\n        echo "the ranks of Pod $JOB_COMPLETION_INDEX had begun in $(cat "$launched/began-$JOB_COMPLETION_INDEX"), which is gone" >&2\n        (set -o noclobber && echo "$((JOB_COMPLETION_INDEX * ', str(given['ranks'].each), ')) 69 $(hostname)" > "$deployment/state/failed_rank") 2> /dev/null\n        exit 69\n    fi\n    trap \'ended=1; kill -TERM "${pids[@]}" 2> /dev/null\' TERM\n    trap \'kill -TERM "${pids[@]}" 2> /dev/null\' USR2\n    for ((each = 0; each < ', str(given['ranks'].each), '; each++)); do\n        rank "$each" "$@" &\n        pids+=("$!")\n    done\n    while together; do\n        sleep 1\n    done && kill -USR2 $$ &\n    watching=$!\n    for each in "${pids[@]}"; do\n        while kill -0 "$each" 2> /dev/null; do\n            wait "$each"\n        done\n        wait "$each" || code=$?\n    done\n    kill "$watching" 2> /dev/null\n    echo "$code" > "$launched/ended-$JOB_COMPLETION_INDEX"\n    # The first Pod ends as all of them do.\n    while [ "$JOB_COMPLETION_INDEX" -eq 0 ] && [ "$code" -eq 0 ] && [ -z "$ended" ]; do\n        ls "$launched" > /dev/null\n        mapfile -t codes < <(sort -n "$launched"/ended-*)\n        code=${codes[-1]}\n        [ "$', str('{#codes[@]}'), '" -lt ', str(given['pods']), ' ] || break\n        sleep 1\n    done\n    [ -z "$ended" ] || code=143\n    exit "$code"\n}\n']
        else:
            out += ['# Starts all ranks, and ends all when one fails.\nranks() {\n    local each code=0 pids=()\n    trap \'kill -TERM "${pids[@]}" 2> /dev/null\' TERM USR2\n    for ((each = 0; each < ', str(given['ranks'].count), '; each++)); do\n']
            if given['ranks'].hosts:
                out += ['        if [ "$each" -ge ', str(given['ranks'].each), ' ]; then\n            connect "$each" &\n        else\n            rank "$each" "${command[@]}" &\n        fi\n']
            else:
                out += ['        rank "$each" "$@" &\n']
            out += ['        pids+=("$!")\n    done\n    [ ! -e "$deployment/state/failed_rank" ] || kill -TERM "${pids[@]}" 2> /dev/null # one failed before all were started\n    for each in "${pids[@]}"; do\n        while kill -0 "$each" 2> /dev/null; do\n            wait "$each"\n        done\n        wait "$each" || code=$?\n    done\n    ', str(('collect; ' if given['ranks'].hosts else '')), 'exit "$code"\n}\n']
    if given['ranks'].hosts:
        _hosts(out, given)
    if given['pods']:
        out += ['launched=$pods/launch-$(date +%s%N)\nrm -rf "$pods"/launch-*\nmkdir "$launched" || exit 73\n']
    out += ['{\n']
    if given['pods']:
        out += ['    echo "# $job_id ${launched##*-}"\n    for name in $(compgen -e); do\n        [ "${given[$name]-}" = "${!name}" ] || declare -p "$name"\n    done\n    declare -p launched\n']
    out += ['    declare -p deployment MASTER_ADDR MASTER_PORT', str((' command' if given['by_file'] else '')), str((' hosts far home job_id' if given['ranks'].hosts else '')), '\n    declare -f note_cores rank', str((' own_cores' if given['ranks'].cores else '')), str((' meet' if given['ranks'].tells_all else '')), str((' ranks' if given['ranks'].is_local else '')), str((' together' if given['pods'] else '')), str((' word there with_host place tidy collect connect far_rank' if given['ranks'].hosts else '')), '\n']
    if given['pods']:
        out += ['    # shellcheck disable=SC2016 # that is for the other shells\n    echo \'cd "$deployment/code" || exit 1\nunset PYTHONPATH PYTHONHOME\nranks "${command[@]}"\'\n} > "$deployment/state/rank.part" && mv "$deployment/state/rank.part" "$deployment/state/rank.sh"\n']
    else:
        out += ['    # shellcheck disable=SC2016 # that is for the other shell\n']
        if given['ranks'].hosts:
            out += ['    echo \'cd "$deployment/code" || exit 1\ncase $# in\n    0) ranks ;;\n    1) far_rank "$1" ;;\n    *) rank "$1" "${command[@]}" ;;\nesac\'\n']
        else:
            out += ["    echo '", str(('ranks "$@"' if given['ranks'].is_local else ('rank "" "${command[@]}"' if given['by_file'] else 'rank "" "$@"'))), "'\n"]
        out += ['} > "$deployment/state/rank.sh"\n']
    if given['ranks'].hosts:
        out += ['\n# All hosts have what they need before a rank begins.\nbringing=()\nfor each in "${hosts[@]}"; do\n    bring "$each" &\n    bringing+=("$!")\ndone\ncode=0\nfor each in "${bringing[@]}"; do\n    wait "$each" || code=$?\ndone\n[ "$code" -eq 0 ] || exit "$code"\n']


def _tuning(out: list[str], given: Given) -> None:
    out += ['\n# Candidates are tried for a few steps each; whatever happens, the best so far is trained, and a job that starts again\n# continues with it.\nif ! [ -e "$deployment/', str(('tuning.json' if given['tuning'].trains else 'state/tuned')), '" ]; then\n    # shellcheck disable=SC2016 # a dollar there is for the other shell\n    tuner=(\n']
    if given['container']:
        out += [str(given['enter']())]
    out += ['    env\n    PYTHONNOUSERSITE=1\n    PYTHONUNBUFFERED=1\n']
    if given['data']:
        out += ['    MODAK_DATASET="$dataset"\n']
    for each in given['named']:
        out += ['    ', str(each.variable), '="$', str(each.variable), '"\n']
    for variable, _ in given['after']:
        out += ['    ', str(variable), '="$', str(variable), '"\n']
    out += ['    sh -c \'export PYTHONPATH="$0${PYTHONPATH:+:$PYTHONPATH}"; exec "$@"\' "$deployment/runtime"\n    ', str(given['python']), '\n    -m modak_tuner\n    "$deployment"\n    )\n    timeout --kill-after=30 ', str(given['tuning'].limit), ' "${tuner[@]}" &\n    tuning=$!\n    trap \'kill -TERM "$tuning" 2> /dev/null; wait "$tuning"; exit 143\' TERM\n    wait "$tuning" || echo "tuning ended with code $?; the best so far is used" >&2\n    trap \'exit 143\' TERM\nfi\n']
    if given['tuning'].trains:
        out += ["# shellcheck disable=SC2016 # a dollar in a user's own value is only a dollar\nenvironment=(\n    MODAK_TUNED=c0\n"]
        for name, value in given['environment']:
            out += ['    ', str(name), '=', str(value), '\n']
        out += [')\n# shellcheck disable=SC2016\narguments=(', str(' '.join([each for each in given['arguments'] if each])), ')\n']
        if given['tuning'].others:
            out += ['# shellcheck disable=SC2016\ncase "$(cat "$deployment/state/tuned" 2> /dev/null)" in\n']
            for each in given['tuning'].others:
                out += ['    ', str(each.name), ') # ', str(each.title), '\n        environment=(\n            MODAK_TUNED=', str(each.name), '\n']
                for name, value in each.environment:
                    out += ['            ', str(name), '=', str(value), '\n']
                out += ['        )\n        arguments=(', str(' '.join([each for each in each.arguments if each])), ')\n        ;;\n']
            out += ['esac\n']
    else:
        out += ['[ -e "$deployment/state/tuned" ] || exit 1\n']


def render(template: str, given: Given) -> str:
    """A script's text."""
    out: list[str] = []
    _TEMPLATES[template](out, dict(given))
    return "".join(out)


_TEMPLATES = {"body": _body, "charliecloud": _charliecloud, "checkpoint": _checkpoint, "cores": _cores, "enroot": _enroot, "folders": _folders, "hosts": _hosts, "podman": _podman, "pods": _pods, "pyxis": _pyxis, "ranks": _ranks, "tuning": _tuning}
