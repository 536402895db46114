# Completion of iraid for bash: the command itself says what fits, volumes and members included.
_iraid()
{
	local cur words cword entry kind value
	_get_comp_words_by_ref -n : cur words cword 2>/dev/null || {
		words=("${COMP_WORDS[@]}") cword=$COMP_CWORD cur=${COMP_WORDS[COMP_CWORD]}
	}
	COMPREPLY=()
	while IFS= read -r entry; do
		kind=${entry%%,*} value=${entry#*,}
		case $kind in
		file) compopt -o default ;;
		dir) compopt -o dirnames ;;
		plain) COMPREPLY+=("$value") ;;
		esac
	done < <(COMP_WORDS="${words[*]}" COMP_CWORD=$cword _IRAID_COMPLETE=bash_complete "$1" 2>/dev/null)
	# Addresses hold colons, at which bash would cut.
	if declare -F __ltrim_colon_completions >/dev/null; then
		__ltrim_colon_completions "$cur"
	fi
}
complete -F _iraid iraid
