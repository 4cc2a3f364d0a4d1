# SPDX-License-Identifier: Apache-2.0
# bash completion of symbtool(1). Verbs and options are what symbtool itself prints.

_symbtool()
{
	local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]} tool=${COMP_WORDS[0]} words
	COMPREPLY=()
	if [ "$COMP_CWORD" = 1 ] || { [ "$COMP_CWORD" = 2 ] && [ "$before" = help ]; }; then
		words=$("$tool" help 2>/dev/null | sed -n 's/^  \([a-z-]*\) .*/\1/p')
		mapfile -t COMPREPLY < <(compgen -W "$words help --help --version" -- "$word")
		return
	fi
	case $before in
	--debug-dir | --output | -o) mapfile -t COMPREPLY < <(compgen -d -- "$word") ;;
	--url | --set | --uploader | --limit | --api-key | --build-id | --debuginfod | --module | --parallel | --threads | --part-size | --retry-time) ;;
	*)
		case $word in
		-*)
			words=$("$tool" help "${COMP_WORDS[1]}" 2>/dev/null | sed -n 's/^  \(-[a-z], \)\{0,1\}\(--[a-z-]*\).*/\2/p')
			mapfile -t COMPREPLY < <(compgen -W "$words --help" -- "$word")
			;;
		*) mapfile -t COMPREPLY < <(compgen -f -- "$word") ;;
		esac
		;;
	esac
}
complete -o filenames -F _symbtool symbtool
