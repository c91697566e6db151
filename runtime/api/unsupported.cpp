// Entry points that need shaders, images or a finalizer. They exist so that programs link, and answer
// NOT_SUPPORTED (or NOT_INITIALIZED): nothing here pretends to have compiled, loaded or drawn anything.
#include <hsa/hsa_ext_finalize.h>
#include <hsa/hsa_ext_image.h>

#include "runtime/api/entry.h"

#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
// Every name below is one function under another type. None of its parameters is read, so under the C calling
// convention of x86-64, where the caller clears its own arguments, one body serves them all.
#pragma GCC diagnostic ignored "-Wattribute-alias"

extern "C" {

hsa_status_t answer_not_supported() {
  return hsa_rt::Runtime::current() == nullptr ? HSA_STATUS_ERROR_NOT_INITIALIZED
                                               : hsa_rt::kErrorNotSupported;
}

#define NOT_SUPPORTED(name) decltype(name) name __attribute__((alias("answer_not_supported")))

NOT_SUPPORTED(hsa_system_get_extension_table);
NOT_SUPPORTED(hsa_system_get_major_extension_table);

NOT_SUPPORTED(hsa_code_object_reader_create_from_file);
NOT_SUPPORTED(hsa_code_object_reader_create_from_memory);
NOT_SUPPORTED(hsa_code_object_reader_destroy);
NOT_SUPPORTED(hsa_code_object_serialize);
NOT_SUPPORTED(hsa_code_object_deserialize);
NOT_SUPPORTED(hsa_code_object_destroy);
NOT_SUPPORTED(hsa_code_object_get_info);
NOT_SUPPORTED(hsa_code_object_get_symbol);
NOT_SUPPORTED(hsa_code_object_get_symbol_from_name);
NOT_SUPPORTED(hsa_code_object_iterate_symbols);
NOT_SUPPORTED(hsa_code_symbol_get_info);

NOT_SUPPORTED(hsa_executable_create);
NOT_SUPPORTED(hsa_executable_create_alt);
NOT_SUPPORTED(hsa_executable_destroy);
NOT_SUPPORTED(hsa_executable_load_code_object);
NOT_SUPPORTED(hsa_executable_load_program_code_object);
NOT_SUPPORTED(hsa_executable_load_agent_code_object);
NOT_SUPPORTED(hsa_executable_freeze);
NOT_SUPPORTED(hsa_executable_get_info);
NOT_SUPPORTED(hsa_executable_global_variable_define);
NOT_SUPPORTED(hsa_executable_agent_global_variable_define);
NOT_SUPPORTED(hsa_executable_readonly_variable_define);
NOT_SUPPORTED(hsa_executable_validate);
NOT_SUPPORTED(hsa_executable_validate_alt);
NOT_SUPPORTED(hsa_executable_get_symbol);
NOT_SUPPORTED(hsa_executable_get_symbol_by_name);
NOT_SUPPORTED(hsa_executable_symbol_get_info);
NOT_SUPPORTED(hsa_executable_iterate_symbols);
NOT_SUPPORTED(hsa_executable_iterate_agent_symbols);
NOT_SUPPORTED(hsa_executable_iterate_program_symbols);

NOT_SUPPORTED(hsa_signal_group_create);
NOT_SUPPORTED(hsa_signal_group_destroy);
NOT_SUPPORTED(hsa_signal_group_wait_any_scacquire);
NOT_SUPPORTED(hsa_signal_group_wait_any_relaxed);

NOT_SUPPORTED(hsa_amd_image_create);
NOT_SUPPORTED(hsa_amd_image_get_info_max_dim);
NOT_SUPPORTED(hsa_ext_image_clear);
NOT_SUPPORTED(hsa_ext_image_copy);
NOT_SUPPORTED(hsa_ext_image_create);
NOT_SUPPORTED(hsa_ext_image_create_with_layout);
NOT_SUPPORTED(hsa_ext_image_data_get_info);
NOT_SUPPORTED(hsa_ext_image_data_get_info_with_layout);
NOT_SUPPORTED(hsa_ext_image_destroy);
NOT_SUPPORTED(hsa_ext_image_export);
NOT_SUPPORTED(hsa_ext_image_get_capability);
NOT_SUPPORTED(hsa_ext_image_get_capability_with_layout);
NOT_SUPPORTED(hsa_ext_image_import);
NOT_SUPPORTED(hsa_ext_sampler_create);
NOT_SUPPORTED(hsa_ext_sampler_destroy);

NOT_SUPPORTED(hsa_ext_program_create);
NOT_SUPPORTED(hsa_ext_program_destroy);
NOT_SUPPORTED(hsa_ext_program_add_module);
NOT_SUPPORTED(hsa_ext_program_iterate_modules);
NOT_SUPPORTED(hsa_ext_program_get_info);
NOT_SUPPORTED(hsa_ext_program_finalize);

NOT_SUPPORTED(hsa_amd_ipc_signal_create);
NOT_SUPPORTED(hsa_amd_ipc_signal_attach);
NOT_SUPPORTED(hsa_amd_coherency_get_type);
NOT_SUPPORTED(hsa_amd_coherency_set_type);

}  // extern "C"
