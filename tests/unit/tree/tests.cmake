rlb_unit_test(tree/provider_file LINK rlb::tree)
rlb_unit_test(tree/tree_directory LINK rlb::tree)
rlb_unit_test(tree/tree_follow LINK rlb::tree)
rlb_unit_test(tree/tree_register LINK rlb::tree)
